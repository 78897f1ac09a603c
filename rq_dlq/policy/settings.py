"""The settings of one queue, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec

from rq_dlq.policy.expiry import TTLS
from rq_dlq.policy.fields import PLAIN, REPORT_INTERVAL, in_redis

if TYPE_CHECKING:
    from msgspec import UnsetType

    from rq_dlq.policy._checks import JSON
    from rq_dlq.policy.breaker import Breaker
    from rq_dlq.policy.dead_letter import DeadLetterStrategy
    from rq_dlq.policy.expiry import ExpiryPolicy
    from rq_dlq.policy.per_key import PerKey
    from rq_dlq.policy.redelivery import RedeliveryPolicy
    from rq_dlq.values.durations import Duration

USUAL: Final[dict[str, Any]] = {
    "dead": "keep",
    "expired": "expired",
    "transient": "keep",
    "dead_for": None,
    "expired_for": None,
    "report_interval": REPORT_INTERVAL,
}


class _Everywhere(TypedDict, total=False):
    """What both operators and programs can set; a type for each row of `fields.TABLE`."""

    dead_letter: DeadLetterStrategy | Mapping[str, object] | UnsetType | None
    expiry: ExpiryPolicy | Mapping[str, object] | UnsetType
    max_in_flight: int | UnsetType | None
    rate: str | int | UnsetType | None
    outcomes: int | UnsetType | None
    dedup_window: Duration | UnsetType | None
    dead_letter_aliases: str | Sequence[str] | UnsetType | None
    expiry_aliases: str | Sequence[str] | UnsetType | None
    per_key: PerKey | str | Mapping[str, object] | UnsetType | None
    results: Duration | UnsetType | None
    results_bytes: str | int | UnsetType | None
    breaker: Breaker | str | Mapping[str, object] | UnsetType | None


class EntryFields(_Everywhere, total=False):
    """The fields of an entry. A field that is left out, or UNSET, is inherited.

    redelivery: when failed messages come back: a policy, or a mapping of some of its fields.
    dead_letter: what becomes of dead letters: a strategy or a mapping; None: drop them, and count them.
    expiry: times to live, and what becomes of expired messages: a policy or a mapping.
    max_in_flight: deliveries at a time, of all consumers together; None: no limit.
    rate: how many messages it hands out in a time, to all consumers together: "100/s", "5/10m", or a number,
        a second; None: no limit. What comes in a second, at least one, may come at once. A retry counts, a
        release does not.
    outcomes: how many events the queue's outcome history keeps, about; None or 0: it is not written.
    dedup_window: how long after its ack a send under a message's id adds nothing; None: an id is free then.
    dead_letter_aliases: more names under which its dead letters are found, such as one for many queues: each
        letter is there once, whichever name it is claimed by. A list, or text with blanks between them. A
        name that is also a queue's shows both, and so do its consumers get both.
    expiry_aliases: the same for its expired messages.
    per_key: what messages of one key do: a `PerKey`, its text or a mapping; None: keys are ignored.
    results: how long the results of its messages are kept, for `Queue.result`, without `result=True` of those
        who send; None: only where they pass that, for an hour.
    results_bytes: how much memory they may take, about; the oldest go first: "64MB", or a number; None: that.
    breaker: when a dependency counts as down: a `Breaker`, its text or a mapping; None: never.

    Examples:
        >>> broker.policies.set("orders.#", redelivery={"max_redeliveries": 3}, rate="100/s")
        1
    """

    redelivery: RedeliveryPolicy | Mapping[str, object] | UnsetType


class Declared(_Everywhere, total=False):
    """What a program may declare for a queue in code; it stays in Redis until the next declaration.

    redelivery: as in `EntryFields`; None: not declared.
    The other fields are those of `EntryFields`.

    Examples:
        >>> imports = broker.queue("imports", redelivery={"max_redeliveries": 3}, max_in_flight=8)
        >>> imports.settings().max_in_flight
        8
    """

    redelivery: RedeliveryPolicy | Mapping[str, object] | UnsetType | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field of a queue's settings comes from.

    Attributes:
        field: "redelivery.initial_delay".
        value: as Redis stores it; durations in whole milliseconds.
        source: a pattern, "pinned" and a pattern, "declared in code" or "default".
    """

    field: str
    value: JSON
    source: str


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of one queue.

    Attributes:
        redelivery: without `fatal`, which the client judges.
        expiry: with every field.
        dead_letter: with every field.
        max_in_flight: deliveries at a time; None: no limit.
        rate: how many messages it hands out in a time, as "100/s"; None: no limit.
        outcomes: events that the outcome history keeps, about; None: it is not written.
        dedup_window: seconds for which the ids of acked messages are known; None: they are not.
        dead_letter_aliases: more names of the dead-letter queue, with blanks between them; None: none.
        expiry_aliases: more names of the expiry queue, likewise.
        per_key: what messages of one key do; None: keys are ignored.
        results: seconds for which the results of all messages are kept; None: of those that ask for it.
        results_bytes: the memory of results, about; None: 64 MB.
        breaker: when a dependency counts as down; None: never. Without `errors`, which the client judges.
        dead_name: of the queue's dead-letter queue, also where dead letters are dropped.
        expired_name: of its expiry queue.
        sources: of every field, in a fixed order.

    Examples:
        >>> settings = orders.settings()
        >>> settings.redelivery.max_delay, settings.rate, settings.dead_name
        (600.0, None, 'DLQ.orders')
    """

    redelivery: RedeliveryPolicy
    expiry: ExpiryPolicy
    dead_letter: DeadLetterStrategy
    max_in_flight: int | None
    rate: str | None
    outcomes: int | None
    dedup_window: float | None
    dead_letter_aliases: str | None
    expiry_aliases: str | None
    per_key: PerKey | None
    results: float | None
    results_bytes: int | None
    breaker: Breaker | None
    dead_name: str
    expired_name: str
    sources: tuple[Source, ...]

    def at_capacity(self, in_flight: int) -> str:
        """Why no delivery starts while so many are in flight; empty: one does."""
        limit = self.max_in_flight
        full = limit is not None and in_flight >= limit
        return f"it waits until fewer than {limit} are being worked on (max_in_flight)" if full else ""

    def wire(self) -> dict[str, str]:
        """The fields of the queue's settings in Redis; one with its default is left out."""
        fates, ttls = self._fates(), self._ttls()
        wire = {"redelivery": _json({"redelivery": self.redelivery.as_wire()})}
        if fates != USUAL:
            wire["dead_letter"] = _json(fates)
        if ttls:
            wire["expiry"] = ttls
        plain = {row.name: in_redis(row, getattr(self, row.name)) for row in PLAIN}
        return wire | {name: str(value) for name, value in plain.items() if value is not None}

    def _fates(self) -> dict[str, JSON]:
        """What becomes of messages that die, expire, or die and are not persistent."""
        dead, expired = self.dead_letter.as_wire(), self.expiry.as_wire()
        discarding = dead["strategy"] == "discarding"
        fate = "discard" if expired["discard"] else "expired"
        if dead["process_expired"]:
            fate = "discard" if discarding else "dead"
        return {
            "dead": "discard" if discarding else "keep",
            "expired": fate,
            "transient": "keep" if dead["process_non_persistent"] else "discard",
            "dead_for": dead["expiration"],
            "expired_for": expired["retention"],
            "report_interval": dead.get("report_interval", REPORT_INTERVAL),
        }

    def _ttls(self) -> str:
        """The ttls that apply at send, "DELAY MIN MAX" in milliseconds; empty: none."""
        expiry = self.expiry.as_wire()
        if expiry["no_expiry"]:
            return "never"
        spans = [expiry[name] for name in TTLS]
        return "" if spans == [None] * 3 else " ".join("-" if span is None else str(span) for span in spans)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
