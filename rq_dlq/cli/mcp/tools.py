"""The tools of an assistant. The docstring of a tool is its description for the assistant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rq_dlq.cli import _fields, _show
from rq_dlq.cli._letters import group_of, letters_of
from rq_dlq.cli.queues import used
from rq_dlq.core.looking.trouble import troubles
from rq_dlq.values.message import DeadLetter

if TYPE_CHECKING:
    from rq_dlq.cli._context import Context
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.message import Received

LONGEST = 2_000  # the most characters of a body, an error or a traceback
EVENTS = 5  # the most events of a history
Name = Annotated[
    str, Field(description="The name of a queue, such as orders; its dead letters are in DLQ.orders.")
]
Group = Annotated[str | None, Field(description="The fingerprint of a group, from `groups`.")]
Ids = Annotated[list[str] | None, Field(description="Ids of dead letters.", max_length=1_000)]
Limit = Annotated[int, Field(description="At most this many.", ge=1, le=100)]
Few = Annotated[int, Field(description="At most this many.", ge=1, le=20)]


class Tools:
    """The tools, for one broker.

    Args:
        masks: the fields whose values are hidden.
        bodies: bodies and headers are shown.
    """

    def __init__(self, context: Context, masks: Masks, *, bodies: bool) -> None:
        self._context, self._masks, self._bodies = context, masks, bodies
        self._before: Overview | None = None

    @property
    def all(self) -> Sequence[Callable[..., str]]:
        """All tools."""
        return (self.queues, self.groups, self.dead_letters, self.explain, self.plan_redrive, self.audit,
                self.policy)  # fmt: skip

    def queues(self, contains: str = "", limit: Limit = 50) -> str:
        """List the queues with their counts and problems, those with the most dead letters first.

        `trouble` describes the problems, and since when. `contains` is a part of the names to list. `totals`
        count since the queue was created; `oldest` is how many seconds the oldest ready message has waited.
        `unreachable` are queues of a cluster whose counts cannot be read now, and `gaps` says why.
        """
        overview = self._before = self._context.broker.overview(self._before)
        found = [queue for queue in overview.queues if contains in queue.name]
        found.sort(key=lambda queue: (-queue.stats.dead, queue.name))
        rows: list[dict[str, Any]] = []
        for queue in found[:limit]:
            trouble = [
                {"what": self._text(one.what), "detail": self._text(one.detail), "since": one.since}
                for one in troubles([queue], overview.at)
            ]
            rows.append(_show.queue_row(queue.stats) | {"trouble": trouble})
        answer: dict[str, Any] = {"at": overview.at, "queues": rows}
        if overview.gaps:
            answer["unreachable"] = [one.name for one in overview.unreachable if contains in one.name][:limit]
            answer["gaps"] = overview.gaps
        return _answer(answer, left_out=len(found) - len(rows))

    def groups(self, queue: Name, limit: Limit = 20) -> str:
        """List the dead letters of a queue by kind of failure, the largest group first.

        A group is new (its first dead letter died within a day), growing (more died within the last hour than
        usual) or regressed (it was emptied and messages died again). `versions` and `consumers` count its
        newest ten dead letters by version of the program and by consumer.
        """
        found = letters_of(self._context, queue).groups()
        rows = [{**_show.group_row(group), "error": self._text(group.error)} for group in found[:limit]]
        return _answer({"groups": rows}, left_out=len(found) - len(rows))

    def dead_letters(self, queue: Name, group: Group = None, limit: Few = 3) -> str:
        """Read the newest dead letters of a queue, or of one group: error, body, headers, history.

        The first of them has the traceback of its last failure. Long texts are cut, secrets are hidden.
        """
        letters = letters_of(self._context, queue)
        found = letters.browse(group=group_of(letters, group, queue), limit=limit, order="newest")
        rows = [self._message(letter) for letter in found]
        for row, letter in zip(rows[:1], found, strict=False):
            row["traceback"] = self._text(letter.cause.traceback or "", end=True)
        return _answer({"dead_letters": rows})

    def explain(self, queue: Name, id: str) -> str:
        """Explain one message of a queue, by its id: where it is, why, what happens next, and its history."""
        explained = used(self._context, queue).explain(id)
        message = explained.message and self._message(explained.message)
        found = {"explanation": self._text(str(explained)), "birth": explained.birth, "message": message}
        return _answer(found)

    def plan_redrive(self, queue: Name, group: Group = None, ids: Ids = None) -> str:
        """Count the messages that a redrive of a group, of some ids or of all dead letters would move back.

        Nothing is moved. `eligible` messages would be redriven; the time to live of `expired` of them has
        ended. `gone` counts ids that are not dead letters, `leased` dead letters that are being processed,
        which stay. A redrive by such a plan would leave out messages that die after `at`.
        """
        letters = letters_of(self._context, queue)
        which: dict[str, Any] = {"group": group_of(letters, group, queue), "ids": ids}
        plan = letters.redrive(dry_run=True, all=group is None and ids is None, **which)
        numbers = _show.attributes(plan, "eligible", "expired", "gone", "leased", "chosen", "at")
        return _answer({"plan": str(plan), **numbers})

    def audit(self, limit: Limit = 20) -> str:
        """List what operators did to messages, queues, schedules and policies, the newest first.

        A record has the operator, the action (purge, move, redrive, pause, delete, configure), the time and
        the number of messages. `counts` are those of a redrive: how many messages were acked, or died again.
        """
        found = self._context.broker.audit(limit)
        return _answer(
            {"records": [asdict(record) | {"chosen": self._text(record.chosen)} for record in found]}
        )

    def policy(self, queue: Name) -> str:
        """Show the settings of a queue (redelivery, dead letters, expiry), and where each was set."""
        settings = self._context.broker.policies.explain(queue)
        rows = [
            {
                "field": one.field,
                "value": _fields.shown(self._context, one.field, one.value),
                "source": one.source,
            }
            for one in settings.sources
        ]
        return _answer({"settings": rows})

    def _message(self, message: Received[Any]) -> dict[str, Any]:
        row = _show.letter_row(message) if isinstance(message, DeadLetter) else _show.message_row(message)
        for name in ("headers", "body"):
            row[name] = self._value(row[name], message.data) if self._bodies else "not shown"
        for name in ("key", "dependency"):
            row[name] = self._masks.value({name: row[name]})[name]
        if "error" in row:
            row["error"] = self._text(row["error"])
        history = _show.history_rows(message)[-EVENTS:]
        names = ("event", "at", "delivery", "delay", "consumer")
        events = [
            {name: row[name] for name in names} | {"error": self._text(row["error"])} for row in history
        ]
        return row | {"history": events}

    def _value(self, value: Any, data: bytes) -> Any:
        """A body or headers without secrets; truncated text if long or deeply nested."""
        try:
            shown = self._masks.value(value)
            text = shown if isinstance(shown, str) else _show.as_json(shown)
        except RecursionError:
            return self._text(data.decode(errors="replace"))
        return shown if len(text) <= LONGEST else _cut(text)

    def _text(self, text: str, *, end: bool = False) -> str:
        return _cut(self._masks.text(text), end=end)


def _cut(text: str, *, end: bool = False) -> str:
    """The beginning of a long text, or its end."""
    if len(text) <= LONGEST:
        return text
    left = f"({len(text):,} characters)"
    return f"{left} …{text[-LONGEST:]}" if end else f"{text[:LONGEST]}… {left}"


def _answer(found: dict[str, Any], left_out: int = 0) -> str:
    return _show.as_json(found | ({"left_out": left_out} if left_out else {}))
