"""A streaming query and its batches: what is claimed, planned, and acked when.

An offset names, for each queue, the last batch that was claimed. Spark writes it down before it works on the
batch, so whoever starts the query again finds the batch by its name, and in it the same messages.

1. `advance` acks all up to `start`, which Spark says only once that batch is in its commit log, and claims
   the next one. So the last batch is acked, too, also while nothing comes; `commit` comes too late for it.
2. `plan` deals out what the batch holds. A heartbeat keeps its leases until it is acked.
3. A query that dies leaves its batch leased. Started again within the lease it plans the same messages;
   started later it finds the batch empty, and the messages come in a later one.
4. A batch that another run of the query began before has failed. One that fails too often is halved, and so
   is a half that fails once (`halving`). What fails alone, while an empty batch does not, is poison.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq._calls import claims
from rq_dlq._work import Wait
from rq_dlq._work.batches import ack_batch, claim_batch, find_batch, places_of
from rq_dlq.errors import DataLoss, InvalidInput, LeaseLost
from rq_dlq.spark.halving import halve, halves, take_half
from rq_dlq.spark.offsets import Position
from rq_dlq.spark.slices import Slice, dealt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq._work import Queue, Steps
    from rq_dlq.spark.offsets import Offset
    from rq_dlq.spark.options import StreamOptions

logger = logging.getLogger("rq_dlq.spark")
LOOK = 250  # milliseconds between two looks at several idle queues: Spark would ask 90 times a second


class Query:
    """One run of a streaming query, as steps; its reader runs them beside the driver.

    Args:
        queues: those that it reads, by name.
        shards: their numbers.
        run: drawn for each run.

    Attributes:
        aside: by queue, the tokens of halves that wait, whose leases have to be kept, too.
    """

    def __init__(
        self, options: StreamOptions, queues: Mapping[str, Queue[Any]], shards: Mapping[str, int], run: str
    ) -> None:
        self._options = options
        self.aside: dict[str, list[str]] = {}
        self._queues = queues
        self._shards = shards
        self._run = run
        self._done: dict[str, int] = {}  # by queue, the last batch that this run knows to be done
        self._begun: dict[str, int] = {}  # by queue, the last batch that this run has planned
        self._looked: set[str] = set()  # queues in which no batch waits that an earlier run left
        self._allowed: dict[str, int] | None = None  # left of what was ready when AvailableNow began

    def bound(self) -> Steps[None]:
        """Take no more than what is ready now."""
        self._allowed = yield from self._ready()

    def backlog(self) -> Steps[dict[str, int]]:
        """By queue: messages that wait to be delivered."""
        waiting: dict[str, int] = {}
        for home, queue in self._queues.items():
            waiting[home] = (yield from _work.stats(queue)).waiting
        return waiting

    def advance(self, start: Offset, most: int) -> Steps[Offset]:
        """Ack what is up to `start`, then claim the next batch; `start` itself where there is nothing.

        Args:
            most: messages in it.

        Raises:
            DataLoss: the queue remembers more, or less, than the checkpoint, and `failOnDataLoss` is set.
            LeaseLost: another run of the query works on the batch that this one began.
        """
        self._check(start)
        for home, said in start.queues.items():
            yield from self._finish(start, home, said)
        known = {home: start.queues.get(home, Position()) for home in self._queues}
        batches = yield from self._waiting_batches(start, known)
        if not batches:
            batches = yield from self._claim(start, known, most)
        if not batches:
            return start
        return replace(start, queues={**start.queues, **batches})

    def _check(self, offset: Offset) -> None:
        if strange := offset.queues.keys() - self._queues.keys():
            message = (
                f"the checkpoint is of {', '.join(sorted(strange))}, the query reads "
                f"{', '.join(self._queues)}: use the checkpoint of these queues, or a new one"
            )
            raise InvalidInput(message)

    def _finish(self, start: Offset, home: str, said: Position) -> Steps[None]:
        if said.batch <= self._done.get(home, 0):
            return
        keys = self._queues[home].keys
        done: int | None = yield claims.done_before(keys, start.query)
        if done not in {said.batch - 1, said.batch}:
            self._lost(home, said.batch, done)
        begun = self._begun.get(home) == said.batch
        # Noted before it is acked: another run that begins the batch now must not take the rest for all.
        noted = yield claims.note_done(keys, start.query, said.batch, run=self._run if begun else "")
        if noted < 0:
            message = (
                f"batch {said.batch} of queue {home!r} was begun anew by another run of this query, so it is "
                "not acked by this one: two drivers use one checkpoint, stop one of them"
            )
            raise LeaseLost(message)
        yield from ack_batch(keys, start.tokens(home))
        self._done[home] = noted

    def _lost(self, home: str, batch: int, done: int | None) -> None:
        known = f"only of batch {done}" if done else "nothing of this query"
        message = (
            f"the checkpoint says batch {batch} of queue {home!r}, and the queue knows {known}: "
            "Redis has lost data, or the query rested for more than 30 days"
        )
        if done and done >= batch:
            message = (
                f"the checkpoint says batch {batch} of queue {home!r}, but batch {done} is done: it is an "
                "old copy, and what was in the batches between is acked"
            )
        if self._options.fail_on_loss:
            message += ". Use the newest checkpoint, or set failOnDataLoss=false to go on from here"
            raise DataLoss(message)
        logger.warning("%s", message)

    def _next(self, home: str, known: Mapping[str, Position]) -> int:
        return max(known[home].batch, self._done.get(home, 0)) + 1

    def _waiting_batches(self, start: Offset, known: Mapping[str, Position]) -> Steps[dict[str, Position]]:
        """Batches that a run before claimed and did not get to write down, or that were put aside."""
        found: dict[str, Position] = {}
        for home, queue in self._queues.items():
            if home in self._looked:
                continue
            number = self._next(home, known)
            batch = yield from find_batch(queue.keys, start.name(number))
            if not batch.messages:
                batch = yield from take_half(queue.keys, start, number)
            if batch.messages:
                found[home] = Position(number, len(batch.sizes), batch.messages)
            else:
                self._looked.add(home)
        return found

    def _claim(self, start: Offset, known: Mapping[str, Position], most: int) -> Steps[dict[str, Position]]:
        room = yield from self._room(most)
        alone = len(room) == 1 and self._allowed is None  # then the claim itself waits for the first message
        batches: dict[str, Position] = {}
        for home, limit in room.items():
            if not limit:
                continue
            number = self._next(home, known)
            batch = yield from claim_batch(
                self._queues[home],
                start.name(number),
                limit=limit,
                lease=self._options.lease,
                wait=self._options.max_wait if alone else 0,
            )
            if batch.messages:
                batches[home] = Position(number, len(batch.sizes), batch.messages)
            if self._allowed is not None:
                self._allowed[home] -= batch.messages or self._allowed[home]
        if not (batches or alone or self._allowed is not None):
            some = next(iter(self._queues.values()))
            yield Wait(some.keys.silent, max(1, min(LOOK, self._options.max_wait)))
        return batches

    def _room(self, most: int) -> Steps[dict[str, int]]:
        """How many messages to claim from each queue: shares of the limit, by what is ready there."""
        if len(self._queues) == 1 and self._allowed is None:  # a claim sees by itself what is there
            return dict.fromkeys(self._queues, most)
        ready = self._allowed if self._allowed is not None else (yield from self._ready())
        share = min(1.0, most / max(1, sum(ready.values())))
        return {home: math.ceil(count * share) for home, count in ready.items()}

    def _ready(self) -> Steps[dict[str, int]]:
        ready: dict[str, int] = {}
        for home, queue in self._queues.items():
            yield from _work.maintain(queue)
            ready[home] = (yield from _work.stats(queue)).ready
        return ready

    def plan(self, start: Offset, end: Offset) -> Steps[list[list[Slice]]]:
        """Deal out the batches of `end`: what each task reads.

        Raises:
            DataLoss: such a batch is done already, and `failOnDataLoss` is set.
        """
        self._check(end)
        slices: list[Slice] = []
        for home, said in end.queues.items():
            if start.queues.get(home) != said:
                yield from self._begin(end, home, said)
                slices += yield from self._slices(end, home)
        return dealt(slices, self._options.partitions)

    def _begin(self, end: Offset, home: str, said: Position) -> Steps[None]:
        if self._begun.get(home) == said.batch:
            return
        self._begun[home] = said.batch
        queue = self._queues[home]
        done, failures, half = yield claims.begin_batch(
            queue.keys, end.query, batch=said.batch, run=self._run
        )
        if done != said.batch - 1:
            self._lost(home, said.batch, done)
        elif failures >= (1 if half else self._options.max_failures):
            yield from halve(queue, end, failures, half=half)
        if failures or half:
            waiting = yield from halves(queue.keys, end)
            self.aside[home] = [token for half in waiting.values() for token in half.tokens]

    def _slices(self, end: Offset, home: str) -> Steps[list[Slice]]:
        keys, tokens = self._queues[home].keys, end.tokens(home)
        places = yield from places_of(keys, tokens)
        return [
            Slice(keys, self._shards[home], token, 0, count)
            for token, count in zip(tokens, places, strict=True)
            if count
        ]
