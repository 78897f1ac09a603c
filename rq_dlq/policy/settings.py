"""The settings of one queue, and the source of each."""

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
    """The fields that both operators and programs can set; a type for each row of `fields.TABLE`."""

    dead_letter: DeadLetterStrategy | Mapping[str, object] | UnsetType | None
    expiry: ExpiryPolicy | Mapping[str, object] | UnsetType
    max_length: int | UnsetType | None
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

    redelivery: when failed messages are redelivered: a policy, or a mapping of some of its fields.
    dead_letter: where dead letters go: a strategy or a mapping; None: drop and count them.
    expiry: times to live, and where expired messages go: a policy or a mapping.
    max_length: how many messages may be ready, scheduled or leased; a send that would add more raises
        `QueueFull`; None: no limit.
    max_in_flight: how many messages may be leased at a time, by all consumers together; None: no limit.
    rate: how many messages are delivered per time span, to all consumers together: "100/s", "5/10m", or a
        number per second; None: no limit. The messages of a second, at least one, may be delivered in a
        burst. A redelivery counts, a release does not.
    outcomes: about how many events the outcome history keeps; None or 0: it is not written.
    dedup_window: how long after an ack a send with the same id is ignored; None: it is not ignored.
    dead_letter_aliases: more names for its dead-letter queue; many queues may share one: each dead letter
        exists once, under all these names. A list, or text with spaces between the names. If a name is also
        that of a queue, the consumers of that queue get the messages of both.
    expiry_aliases: the same for its expiry queue.
    per_key: the rule for messages with the same key: a `PerKey`, its text or a mapping; None: keys are
        ignored.
    results: how long the results of all its messages are kept, for `Queue.result`; None: only results of
        messages sent with `result=True`, for an hour.
    results_bytes: about how much memory results may take: "64MB", or a number of bytes; the oldest are
        dropped first; None: 64 MB.
    breaker: when a dependency counts as down: a `Breaker`, its text or a mapping; None: never.

    Examples:
        >>> broker.policies.set("orders.#", redelivery={"max_redeliveries": 3}, rate="100/s")
        1
    """

    redelivery: RedeliveryPolicy | Mapping[str, object] | UnsetType


class Declared(_Everywhere, total=False):
    """The fields that a program may declare for a queue; they stay in Redis until the next declaration.

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
    """The source of a field of a queue's settings.

    Attributes:
        field: the field's name, such as "redelivery.initial_delay".
        value: the value in Redis; durations are whole milliseconds.
        source: a pattern, "pinned" and a pattern, "declared in code" or "default".
    """

    field: str
    value: JSON
    source: str


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of one queue.

    Attributes:
        redelivery: the policy, without `fatal`, which the client checks.
        expiry: the policy, with every field.
        dead_letter: the strategy, with every field.
        max_length: how many messages may be ready, scheduled or leased; None: no limit.
        max_in_flight: how many messages may be leased at a time; None: no limit.
        rate: how many messages are delivered per time span, such as "100/s"; None: no limit.
        outcomes: about how many events the outcome history keeps; None: it is not written.
        dedup_window: how long the ids of acked messages are remembered, seconds; None: not at all.
        dead_letter_aliases: more names of the dead-letter queue, separated by spaces; None: no more names.
        expiry_aliases: more names of the expiry queue, likewise.
        per_key: the rule for messages with the same key; None: keys are ignored.
        results: how long the results of all messages are kept, seconds; None: only those sent with
            `result=True`.
        results_bytes: about how much memory results may take; None: 64 MB.
        breaker: when a dependency counts as down, without `errors`, which the client checks; None: never.
        dead_name: the name of its dead-letter queue, even if dead letters are dropped.
        expired_name: the name of its expiry queue.
        sources: the source of every field, in a fixed order.

    Examples:
        >>> settings = orders.settings()
        >>> settings.redelivery.max_delay, settings.rate, settings.dead_name
        (600.0, None, 'DLQ.orders')
    """

    redelivery: RedeliveryPolicy
    expiry: ExpiryPolicy
    dead_letter: DeadLetterStrategy
    max_length: int | None
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
        """The reason why no delivery can start with this many in flight; empty: one can start."""
        limit = self.max_in_flight
        full = limit is not None and in_flight >= limit
        return f"it waits until fewer than {limit} are being processed (max_in_flight)" if full else ""

    def wire(self) -> dict[str, str]:
        """The fields of the queue's settings in Redis, except those at their defaults."""
        fates, ttls = self._fates(), self._ttls()
        wire = {"redelivery": _json({"redelivery": self.redelivery.as_wire()})}
        if fates != USUAL:
            wire["dead_letter"] = _json(fates)
        if ttls:
            wire["expiry"] = ttls
        plain = {row.name: in_redis(row, getattr(self, row.name)) for row in PLAIN}
        return wire | {name: str(value) for name, value in plain.items() if value is not None}

    def _fates(self) -> dict[str, JSON]:
        """The destinations of dead, expired, and dead non-persistent messages."""
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
        """The ttls that apply at send, "DELAY MIN MAX" in milliseconds; empty: no ttl."""
        expiry = self.expiry.as_wire()
        if expiry["no_expiry"]:
            return "never"
        spans = [expiry[name] for name in TTLS]
        return "" if spans == [None] * 3 else " ".join("-" if span is None else str(span) for span in spans)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
