"""The fields of a policy as options and as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import UNSET

from rq_dlq.durations import human
from rq_dlq.policy.entry import NUMBERS, PARTS
from rq_dlq.policy_files import NOTHING, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rq_dlq.policy import Entry

F = TypeVar("F", bound="Callable[..., Any]")
SPAN, NUMBER, WHOLE, TEXT, SPANS, FLAG = "SPAN", "NUMBER", "N", "NAME", "SPAN,SPAN,…", "flag"
IN_MS: Final = frozenset(
    {
        "redelivery.initial_delay",
        "redelivery.redelivery_delay",
        "redelivery.max_delay",
        "redelivery.delays",
        "dead_letter.expiration",
        "expiry.expiry_delay",
        "expiry.min_expiry_delay",
        "expiry.max_expiry_delay",
        "expiry.retention",
    }
)


@dataclass(frozen=True)
class Field:
    """A field of an entry, as an option.

    Attributes:
        where: "redelivery.initial_delay".
        option: "--initial-delay"; of a flag without what denies it.
        kind: what is typed.
    """

    where: str
    option: str
    kind: str
    help: str

    @property
    def parameter(self) -> str:
        """The name that click passes it by."""
        return self.where.replace(".", "__")

    def read(self, given: Any) -> Any:
        """What was typed, as `Entry.of` takes it."""
        value = meant(self.where, given)
        if value is None or not isinstance(value, str):
            return value
        if self.kind == SPANS:
            return [span for span in value.replace(",", " ").split() if span]
        if self.kind in {NUMBER, WHOLE}:
            return self._number(value)
        return value

    def _number(self, text: str) -> float:
        try:
            return int(text) if self.kind == WHOLE else float(text)
        except ValueError:
            whole = "whole " if self.kind == WHOLE else ""
            word = f" and not {NOTHING[self.where]!r}" if self.where in NOTHING else ""
            message = f"{self.option}: {text!r} is no {whole}number{word}"
            raise click.UsageError(message) from None


REDELIVERY: Final = (
    Field("redelivery.initial_delay", "--initial-delay", SPAN, "Before the first redelivery."),
    Field("redelivery.multiplier", "--multiplier", NUMBER, "By which the wait grows, 1 or more."),
    Field("redelivery.max_delay", "--max-delay", SPAN, "The longest wait; or unlimited."),
    Field("redelivery.collision_avoidance", "--collision-avoidance", NUMBER,
          "The part of a wait, 0 to 1, by which it is spread."),
    Field("redelivery.max_redeliveries", "--max-redeliveries", WHOLE,
          "Redeliveries, not deliveries; 0: none; -1 or unlimited."),
    Field("redelivery.delays", "--delays", SPANS, "Each wait; the last one repeats."),
    Field("redelivery.arithmetic", "--arithmetic", TEXT, "rq, artemis or activemq: whose sums, to the bit."),
    Field("redelivery.redelivery_delay", "--redelivery-delay", SPAN,
          "ActiveMQ Classic's: from the second redelivery on."),
)  # fmt: skip
DEAD_LETTER: Final = (
    Field("dead_letter.strategy", "--strategy", TEXT, "individual, shared or discarding."),
    Field("dead_letter.name", "--dlq-name", TEXT, "Of one dead-letter queue for many queues (shared)."),
    Field("dead_letter.prefix", "--prefix", TEXT, "Before the queue's name (individual)."),
    Field("dead_letter.suffix", "--suffix", TEXT, "After it."),
    Field("dead_letter.only", "--only", TEXT, "Queues whose dead letters are dropped (discarding), or all."),
    Field("dead_letter.report_interval", "--report-interval", WHOLE, "One line in the log for so many."),
    Field("dead_letter.process_expired", "--process-expired", FLAG, "The expired are dead letters, too."),
    Field("dead_letter.process_non_persistent", "--process-non-persistent", FLAG,
          "Messages sent with persistent=False are kept when they die."),
    Field("dead_letter.expiration", "--expiration", SPAN, "Drop a dead letter after that; or never."),
)  # fmt: skip
EXPIRY: Final = (
    Field("expiry.expiry_delay", "--expiry-delay", SPAN, "The ttl of messages sent without one; or none."),
    Field("expiry.min_expiry_delay", "--min-expiry-delay", SPAN, "The shortest ttl; or none."),
    Field("expiry.max_expiry_delay", "--max-expiry-delay", SPAN,
          "The longest ttl, which messages without one get; or none."),
    Field("expiry.no_expiry", "--no-expiry", FLAG, "Messages never expire, whatever their ttl."),
    Field("expiry.retention", "--retention", SPAN, "Drop an expired message after that; or forever."),
    Field("expiry.discard", "--discard-expired", FLAG, "Expired messages are dropped, and counted."),
    Field("expiry.name", "--expiry-name", TEXT, "Of one expiry queue for many queues; or none."),
    Field("expiry.prefix", "--expiry-prefix", TEXT, "Before the queue's name, of its own expiry queue."),
    Field("expiry.suffix", "--expiry-suffix", TEXT, "After it."),
)  # fmt: skip
OTHERS: Final = (
    Field("max_in_flight", "--max-in-flight", WHOLE, "Deliveries at a time, of all consumers; or unlimited."),
    Field("outcomes", "--outcomes", WHOLE, "Events of the outcome history that are kept, about; or none."),
)
ALL: Final = (*REDELIVERY, *DEAD_LETTER, *EXPIRY, *OTHERS)
DENIED: Final = {"--no-expiry": "--may-expire"}


def options(fields: Sequence[Field]) -> Callable[[F], F]:
    """An option for each of these fields."""

    def decorate(function: F) -> F:
        for field in reversed(fields):
            if field.kind == FLAG:
                denied = DENIED.get(field.option, f"--no-{field.option.removeprefix('--')}")
                names = (f"{field.option}/{denied}", field.parameter)
                function = click.option(*names, default=None, help=field.help)(function)
            else:
                names = (field.option, field.parameter)
                function = click.option(*names, metavar=field.kind, help=field.help)(function)
        return function

    return decorate


def said(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was said with options, as arguments of `Entry.of`."""
    arguments: dict[str, Any] = {}
    for field in fields:
        if given.get(field.parameter) is None:
            continue
        part, dot, name = field.where.partition(".")
        value = field.read(given[field.parameter])
        if dot:
            arguments.setdefault(part, {})[name] = value
        else:
            arguments[part] = value
    return arguments


def as_read(where: str, value: Any) -> str:
    """A field's value as it stands in Redis, as people read it."""
    if value is None:
        return NOTHING.get(where, "-")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(as_read(where, item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if where in IN_MS:
        return f"-{human(-value)}" if value < 0 else human(value)
    return f"{value:,g}" if isinstance(value, float) else str(value)


def fields_of(entry: Entry) -> dict[str, Any]:
    """All that an entry says, by "redelivery.initial_delay", as it stands in Redis."""
    parts = {part: getattr(entry, part) for part in PARTS}
    fields = {f"{part}.{name}": value for part, inner in parts.items() for name, value in inner.items()}
    fields |= {name: getattr(entry, name) for name in NUMBERS if getattr(entry, name) is not UNSET}
    return fields | ({"pinned": True} if entry.pinned else {})
