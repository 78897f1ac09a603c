"""Where dead letters go: the strategies, and their fields in entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import UNSET, UnsetType

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import fields, patterns

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.names import Template

ROWS: Final = fields.BY_PART["dead_letter"]


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class DeadLetterStrategy:
    """The common fields of the strategies. A field that is not set is inherited.

    Attributes:
        process_expired: True: expired messages become dead letters; by default (False) they go to an expiry
            queue.
        process_non_persistent: False: a message sent with `persistent=False` is dropped, and counted,
            when it would die; by default it is kept (True).
        expiration: seconds after which a dead letter is dropped, and counted; None, the default: never.

    Examples:
        >>> isinstance(orders.settings().dead_letter, DeadLetterStrategy)
        True
    """

    process_expired: bool | UnsetType
    process_non_persistent: bool | UnsetType
    expiration: float | UnsetType | None

    STRATEGY: ClassVar[str] = ""

    def as_wire(self) -> dict[str, JSON]:
        """The fields that are set, as Redis stores them: JSON values, whole milliseconds."""
        return fields.to_wire("dead_letter", self, strategy=self.STRATEGY)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class IndividualDeadLetterStrategy(DeadLetterStrategy):
    """Each queue has a dead-letter queue of its own; this is the default.

    Attributes:
        prefix: put before the queue's name to name its dead-letter queue; by default the broker's ("DLQ.").
        suffix: put after it.

    Examples:
        >>> orders = broker.queue("audited", dead_letter=IndividualDeadLetterStrategy(prefix="DEAD."))
        >>> orders.open()
        >>> orders.settings().dead_name
        'DEAD.audited'
    """

    prefix: str | UnsetType
    suffix: str | UnsetType

    STRATEGY: ClassVar[str] = "individual"

    def __init__(
        self,
        *,
        prefix: str | UnsetType = UNSET,
        suffix: str | UnsetType = UNSET,
        process_expired: bool | UnsetType = UNSET,
        process_non_persistent: bool | UnsetType = UNSET,
        expiration: Duration | UnsetType | None = UNSET,
    ) -> None:
        """Check the settings.

        Raises:
            PolicyError: a setting is not valid, or a dead-letter queue would have its queue's name.
        """
        _store(self, process_expired, process_non_persistent, expiration, prefix=prefix, suffix=suffix)
        check.apart(self.prefix, self.suffix)

    @staticmethod
    def activemq() -> IndividualDeadLetterStrategy:
        """ActiveMQ Classic's strategy: its prefix; expired messages die, non-persistent ones are dropped.

        Returns:
            The strategy.

        Examples:
            >>> IndividualDeadLetterStrategy.activemq().prefix
            'ActiveMQ.DLQ.Queue.'
        """
        return IndividualDeadLetterStrategy(
            prefix="ActiveMQ.DLQ.Queue.", process_expired=True, process_non_persistent=False
        )


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class SharedDeadLetterStrategy(DeadLetterStrategy):
    """Many queues share one name for their dead letters.

    Attributes:
        name: the name of the dead-letter queue.

    Examples:
        >>> broker.policies.set("mail.#", dead_letter=SharedDeadLetterStrategy("MAIL.DEAD"))
        0
        >>> broker.policies.explain("mail.eu").dead_name
        'MAIL.DEAD'
    """

    name: str

    STRATEGY: ClassVar[str] = "shared"

    def __init__(
        self,
        name: str,
        *,
        process_expired: bool | UnsetType = UNSET,
        process_non_persistent: bool | UnsetType = UNSET,
        expiration: Duration | UnsetType | None = UNSET,
    ) -> None:
        """Check the settings.

        Raises:
            PolicyError: a setting is not valid.
        """
        _store(self, process_expired, process_non_persistent, expiration, name=name)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class DiscardingDeadLetterStrategy(DeadLetterStrategy):
    """Dead letters are dropped, counted and reported.

    Attributes:
        only: the queues whose dead letters are dropped, as names with dots between words; a word is `*`, `#`
            (at the end) or a regular expression: `ORDERS.EU.[0-9]{3}`. For other queues the strategy is
            ignored. None, the default: all queues that the entry matches.
        report_interval: log one line for this many dropped messages.

    Examples:
        >>> pings = broker.queue("pings", dead_letter=DiscardingDeadLetterStrategy())
        >>> pings.open()
    """

    only: tuple[str, ...] | None
    report_interval: int | UnsetType

    STRATEGY: ClassVar[str] = "discarding"

    def __init__(
        self,
        *,
        only: str | Iterable[str] | UnsetType | None = UNSET,
        report_interval: int | UnsetType = UNSET,
        process_expired: bool | UnsetType = UNSET,
        process_non_persistent: bool | UnsetType = UNSET,
        expiration: Duration | UnsetType | None = UNSET,
    ) -> None:
        """Check the settings.

        Args:
            only: a list, or text with spaces between the names; not empty.
            report_interval: 1 or more.
            process_expired: see the class.
            process_non_persistent: see the class.
            expiration: see the class.

        Raises:
            PolicyError: a setting is not valid.
        """
        own = {"only": None if only is UNSET else only, "report_interval": report_interval}
        _store(self, process_expired, process_non_persistent, expiration, **own)


OWN: Final = {
    strategy: tuple(name for name, row in ROWS.items() if row.strategy == strategy)
    for strategy in fields.STRATEGIES
}
"""By strategy: the fields that only this strategy has."""
COMMON: Final = tuple(name for name, row in ROWS.items() if not row.strategy)


def wire_of(given: object) -> dict[str, JSON]:
    """The fields that an entry sets, as Redis stores them.

    Args:
        given: a strategy, a mapping of some of the fields, or None, which means discard.

    Raises:
        PolicyError: it is not valid.
    """
    if given is None:
        given = DiscardingDeadLetterStrategy()
    if isinstance(given, DeadLetterStrategy):
        return given.as_wire()
    known = check.fields(given, ROWS, "dead_letter")
    strategy = _strategy(known)
    if strategy is None:  # all strategies have the other fields; an interval is kept, for the discarding one
        known.pop("strategy", None)
        wire = DiscardingDeadLetterStrategy(**known).as_wire()
        return {name: value for name, value in wire.items() if name in known}
    return _build({**known, "strategy": strategy}).as_wire()


def over(before: Mapping[str, JSON], given: object) -> dict[str, JSON]:
    """The fields of an earlier entry with those of `wire_of` in their place."""
    new = wire_of(given)
    gone: set[str] = set()
    if not isinstance(given, Mapping):
        gone = {*ROWS}
    elif new.get("strategy", before.get("strategy")) != before.get("strategy"):
        gone = {name for name, row in ROWS.items() if row.strategy}
    return {**{name: value for name, value in before.items() if name not in gone}, **new}


def concerns(wire: Mapping[str, Any], name: str) -> bool:
    """Whether the fields of an entry apply to a queue; they may be limited to some names."""
    only = wire.get("only")
    return not only or patterns.meant(tuple(only), name)


def complete(given: Mapping[str, JSON], naming: Template) -> DeadLetterStrategy:
    """The combined strategy of several entries, with every field.

    Args:
        given: fields of any strategies; those of a strategy that is not in force are ignored.
        naming: the template for dead-letter queues that no entry names.
    """
    every = fields.with_defaults("dead_letter", given, naming)
    own = (*OWN[str(every["strategy"])], *COMMON)
    return _build(fields.from_wire("dead_letter", {name: every[name] for name in own if name in every}))


def _strategy(given: Mapping[str, object]) -> str | None:
    """The strategy of a mapping: the one it names, or the only one with its fields; None: not determined."""
    named = given.get("strategy")
    strategy: str | None = None if named is None else ROWS["strategy"].given(named, "strategy")
    owners = {owner for owner, own in OWN.items() if not given.keys().isdisjoint(own)}
    if len(owners if strategy is None else owners | {strategy}) > 1:
        of_each = "; ".join(f"{strategy} has {' and '.join(own)}" for strategy, own in OWN.items())
        raise PolicyError(f"dead_letter mixes strategies: {', '.join(given)}. {of_each}")
    if strategy is not None:
        return strategy
    if "only" in given:
        message = "only is a setting of the discarding strategy. Add strategy: 'discarding'"
        raise PolicyError(message)
    implied = owners - {"discarding"}
    return implied.pop() if implied else None


def _build(given: Mapping[str, Any]) -> DeadLetterStrategy:
    kinds: dict[str, type[Any]] = {
        kind.STRATEGY: kind
        for kind in (IndividualDeadLetterStrategy, SharedDeadLetterStrategy, DiscardingDeadLetterStrategy)
    }
    arguments = dict(given)
    kind = kinds[arguments.pop("strategy")]
    if kind is SharedDeadLetterStrategy and "name" not in arguments:
        raise PolicyError("the shared strategy has no name. Pass the name of the dead-letter queue")
    strategy: DeadLetterStrategy = kind(**arguments)
    return strategy


def _store(
    strategy: DeadLetterStrategy, expired: object, non_persistent: object, expiration: object, **own: object
) -> None:
    """Check and set the common fields of strategies, and a strategy's own fields."""
    common = {"process_expired": expired, "process_non_persistent": non_persistent, "expiration": expiration}
    fields.store("dead_letter", strategy, **common, **own)
