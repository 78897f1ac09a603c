"""Messages, decoded together, as Arrow columns."""
# ruff: noqa: D102 - the schema explains the columns

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType

from rq_dlq.spark.arrow import arrow_type, texts, times
from rq_dlq.spark.records import Records, where
from rq_dlq.spark.schemas import FAILURE
from rq_dlq.values import state as states
from rq_dlq.values.cached import cached_property
from rq_dlq.values.failure import Cause, Event, cause_of_expiry, last_failure, moment, read_history
from rq_dlq.values.later import needed, upgrade

if TYPE_CHECKING:
    from rq_dlq.core.pages.calls import Page

_DAMAGED = states.State(part="")  # or of a later form: it cannot be read


def _part_of(causes: str, part: str) -> cached_property[pa.Array]:
    """The column with a part of each cause; null if it is empty."""

    def column(messages: Messages) -> pa.Array:
        known = getattr(messages, causes)
        if not any(known):
            return pa.nulls(len(messages), pa.string())
        parts = [cause and getattr(cause, part) for cause in known]
        return pa.array([text or None for text in parts], pa.string())

    return cached_property(column)


def _count_of(value: Callable[[states.State], int]) -> cached_property[pa.Array]:
    """The column with a count of each state."""

    def column(messages: Messages) -> pa.Array:
        counts = messages._of_state(value).clip(max=2**31 - 1)  # noqa: SLF001
        return pa.array(counts.astype(np.int32), mask=~messages._readable)  # noqa: SLF001

    return cached_property(column)


class Messages(Records):
    """Messages of one queue. Each column is a property with its name, made on first use.

    Args:
        pages: their parts that were read.
        queue: its name.
        shard: its number among the shards.
    """

    def __init__(self, pages: Sequence[Page], queue: str, shard: int = 0) -> None:
        self._ids, cells, self._states, self._histories = (
            [*chain.from_iterable(getattr(page, part) for page in pages)]
            for part in ("ids", "records", "states", "histories")
        )
        super().__init__(cells)
        self._count = len(self._ids)
        self._tokens = [(page.token, len(page.ids)) for page in pages]
        self.queue = pa.repeat(queue, self._count)
        self.original_queue = self.queue
        self.shard = pa.repeat(pa.scalar(shard, pa.int32()), self._count)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def id(self) -> pa.Array:
        return texts(self._ids)

    @cached_property
    def batch(self) -> pa.Array:
        tokens = (pa.repeat(pa.scalar(token, pa.string()), count) for token, count in self._tokens)
        return pa.concat_arrays([*tokens])

    @cached_property
    def _different(self) -> tuple[list[states.State], np.ndarray[Any, Any]]:
        """The different states, and which of them each message has: those claimed together have the same."""
        numbers = {text: number for number, text in enumerate(dict.fromkeys(self._states))}
        read = [states.NEW if text is None else states.read_state(text) or _DAMAGED for text in numbers]
        return read, np.fromiter(map(numbers.__getitem__, self._states), np.intp, self._count)

    def _of_state(self, value: Callable[[states.State], Any]) -> np.ndarray[Any, Any]:
        """A value of the state of each message."""
        different, which = self._different
        return np.array([value(state) for state in different]).take(which)

    @cached_property
    def _readable(self) -> np.ndarray[Any, Any]:
        return self._of_state(lambda state: state is not _DAMAGED)

    @cached_property
    def _is_live(self) -> np.ndarray[Any, Any]:
        return self._of_state(lambda state: state.part == "live")

    @cached_property
    def _due(self) -> np.ndarray[Any, Any]:
        return self._of_state(lambda state: state.due)

    delivery_count = _count_of(lambda state: state.deliveries)
    attempt = _count_of(lambda state: max(0, state.deliveries - state.untried))
    redrive_count = _count_of(lambda state: state.redriven)

    @cached_property
    def visible_at(self) -> pa.Array:
        due = self._due
        known = self._is_live & ((due > 0) | self._whole)
        return times(np.where(due > 0, due, self.enqueued), known)

    @cached_property
    def expires_at(self) -> pa.Array:
        redriven = self._of_state(lambda state: state.redriven > 0)
        given = self._of_state(lambda state: state.expires)
        mortal = np.where(redriven, given > 0, self._expires)
        return times(np.where(redriven, given, self._ends), self._whole & self._readable & mortal)

    @cached_property
    def dead_at(self) -> pa.Array:
        return times(self._due, ~self._is_live & (self._due > 0))

    @cached_property
    def reason(self) -> pa.Array:
        return pa.array(self._of_state(lambda state: state.reason or None), pa.string())

    @cached_property
    def corrupt(self) -> pa.Array:
        """The damage of each message; null: none."""
        wrong = {n: self._wrong_state(n) for n in where(~self._readable)} | self._wrong_records()
        if not wrong:
            return pa.nulls(self._count, pa.string())
        return pa.array([wrong.get(n) for n in range(self._count)], pa.string())

    def _wrong_state(self, n: int) -> str:
        version = needed(self._states[n] or b"")
        return str(upgrade("the state", version)) if version else "the state does not read"

    @cached_property
    def _last_failures(self) -> list[Event | None]:
        return [last_failure(text) if text else None for text in self._histories]

    @cached_property
    def _failures(self) -> list[Cause | None]:
        return [event.cause if event else None for event in self._last_failures]

    @cached_property
    def _causes(self) -> list[Cause | None]:
        """The cause of each death."""
        causes = [*self._failures]
        for n in where(self._of_state(lambda state: state.reason == "expired")):
            causes[n] = cause_of_expiry(self._last_failures[n], moment(int(self._due[n])))
        return causes

    last_error_class = _part_of("_failures", "type")
    last_error_message = _part_of("_failures", "message")
    error_class = _part_of("_causes", "type")
    error_message = _part_of("_causes", "message")
    fingerprint = _part_of("_causes", "fingerprint")

    @cached_property
    def history(self) -> pa.Array:
        return pa.array([_story(text) for text in self._histories], arrow_type(ArrayType(FAILURE)))

    @cached_property
    def history_json(self) -> pa.Array:
        """Arrays of objects with the fields of the struct; times in ISO format."""
        stories = (
            [dict(zip(FAILURE.names, event, strict=True)) for event in _story(text)]
            for text in self._histories
        )
        return pa.array([msgspec.json.encode(story) for story in stories], pa.string())


def _story(text: bytes | None) -> list[tuple[object, ...]]:
    """The events of a history, each in the order of the struct's fields."""
    return [
        (
            event.delivery, event.at, event.consumer or None, event.event,
            event.cause.type or None, event.cause.message or None, round(event.delay * 1000),
        )
        for event in read_history(text or b"")
    ]  # fmt: skip
