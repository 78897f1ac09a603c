"""Where a message goes when it dies: the strategies, and what an entry says of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import UNSET, UnsetType

from rq_dlq.durations import shown
from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import patterns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rq_dlq._names import Template
    from rq_dlq.durations import Duration
    from rq_dlq.policy._checks import JSON

REPORT_INTERVAL: Final = 1000
PERIODS: Final = frozenset({"expiration"})


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class DeadLetterStrategy:
    """What the strategies have in common. A field that is not said is inherited.

    Attributes:
        process_expired: expired messages are dead letters, too; unless said they have a queue of
            their own (False).
        process_non_persistent: False: a message sent with `persistent=False` is dropped, counted,
            where it would die; unless said it is kept (True).
        expiration: seconds after which a dead letter is dropped, counted; None, and unless said: never.
    """

    process_expired: bool | UnsetType
    process_non_persistent: bool | UnsetType
    expiration: float | UnsetType | None

    STRATEGY: ClassVar[str] = ""

    def as_wire(self) -> dict[str, JSON]:
        """What is said, as it stands in Redis: JSON values, whole milliseconds."""
        said = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        said["strategy"] = self.STRATEGY
        return check.to_wire({name: said[name] for name in FIELDS if name in said}, PERIODS)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class IndividualDeadLetterStrategy(DeadLetterStrategy):
    """Each queue has a dead-letter queue of its own; this is the default.

    Attributes:
        prefix: before the queue's name; unless said, and nothing is inherited, the broker's ("DLQ.").
        suffix: after it.
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
            PolicyError: a setting makes no sense, or the names would be the queues' own.
        """
        _store(self, process_expired, process_non_persistent, expiration)
        check.store(
            self,
            prefix=check.said(prefix, "prefix", check.affix),
            suffix=check.said(suffix, "suffix", check.affix),
        )
        check.apart(self.prefix, self.suffix)

    @staticmethod
    def activemq() -> IndividualDeadLetterStrategy:
        """ActiveMQ Classic's: its prefix; the expired are dead letters, the non-persistent are dropped."""
        return IndividualDeadLetterStrategy(
            prefix="ActiveMQ.DLQ.Queue.", process_expired=True, process_non_persistent=False
        )


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class SharedDeadLetterStrategy(DeadLetterStrategy):
    """Many queues have one name for their dead letters.

    Attributes:
        name: of the dead-letter queue.
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
            PolicyError: a setting makes no sense.
        """
        _store(self, process_expired, process_non_persistent, expiration)
        check.store(self, name=check.queue_name(name, "name"))


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class DiscardingDeadLetterStrategy(DeadLetterStrategy):
    """Dead letters are dropped, counted and reported.

    Attributes:
        only: the queues of which they are dropped, by names of words between dots that are `*`, `#`
            (at the end) or regular expressions: `ORDERS.EU.[0-9]{3}`. For the others this strategy
            is as if not said. None, and unless said: all that the entry is for.
        report_interval: one line in the log for that many.
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
            only: a list, or text with blanks between the names; never an empty one.
            report_interval: 1 or more.
            process_expired: see the class.
            process_non_persistent: see the class.
            expiration: see the class.

        Raises:
            PolicyError: a setting makes no sense.
        """
        _store(self, process_expired, process_non_persistent, expiration)
        everything = only is None or isinstance(only, UnsetType)
        check.store(
            self,
            only=None if everything else patterns.names(only, "only"),
            report_interval=check.said(report_interval, "report_interval", _interval),
        )


COMMON: Final = ("process_expired", "process_non_persistent", "expiration")
OWN: Final = {
    "individual": ("prefix", "suffix"),
    "shared": ("name",),
    "discarding": ("only", "report_interval"),
}
"""By strategy: the fields that only it has."""
FIELDS: Final = ("strategy", *OWN["individual"], *OWN["shared"], *OWN["discarding"], *COMMON)
DEFAULTS: Final[Mapping[str, JSON]] = {
    "strategy": "individual",
    "only": None,
    "report_interval": REPORT_INTERVAL,
    "process_expired": False,
    "process_non_persistent": True,
    "expiration": None,
}


def said_of(given: object) -> dict[str, JSON]:
    """What an entry says, as it stands in Redis.

    Args:
        given: a strategy, a mapping of some of the fields, or None: discard.

    Raises:
        PolicyError: it makes no sense.
    """
    if given is None:
        given = DiscardingDeadLetterStrategy()
    if isinstance(given, DeadLetterStrategy):
        return given.as_wire()
    fields = check.fields(given, FIELDS, "dead_letter")
    strategy = _strategy(fields)
    if strategy is None:  # what is left fits every strategy, but for an interval that waits for its own
        fields.pop("strategy", None)
        said = DiscardingDeadLetterStrategy(**fields).as_wire()
        return {name: value for name, value in said.items() if name in fields}
    return _build({**fields, "strategy": strategy}).as_wire()


def read(wire: object) -> dict[str, JSON]:
    """What an entry in Redis says.

    Raises:
        PolicyError: it makes no sense.
    """
    return said_of(check.from_wire(check.fields(wire, FIELDS, "dead_letter"), PERIODS))


def concerns(said: Mapping[str, Any], name: str) -> bool:
    """Whether what an entry says holds for a queue: it may be for some names only."""
    only = said.get("only")
    return not only or patterns.meant(tuple(only), name)


def complete(said: Mapping[str, JSON], naming: Template) -> DeadLetterStrategy:
    """The strategy, with every field, of what entries say together.

    Args:
        said: of any strategies; what belongs to another than the one that holds is left out.
        naming: of dead-letter queues, where nothing is said.
    """
    fields = {**DEFAULTS, "prefix": naming.prefix, "suffix": naming.suffix, **said}
    own = (*OWN[str(fields["strategy"])], "strategy", *COMMON)
    return _build(check.from_wire({name: fields[name] for name in own if name in fields}, PERIODS))


def _strategy(fields: Mapping[str, object]) -> str | None:
    """The strategy that a mapping says, or that its fields can only mean; None: none."""
    said = fields.get("strategy")
    owners = {owner for owner, own in OWN.items() if not fields.keys().isdisjoint(own)}
    if said is not None and (not isinstance(said, str) or said not in OWN):
        message = f"strategy is {shown(said)}. Pass one of {', '.join(OWN)}"
        raise PolicyError(message)
    if len(owners if said is None else owners | {said}) > 1:
        message = f"dead_letter mixes strategies: {', '.join(fields)}. {_fields_of_each()}"
        raise PolicyError(message)
    if said is not None:
        return said
    if "only" in fields:
        message = "only says what is dropped, which has to be said outright. Add strategy: 'discarding'"
        raise PolicyError(message)
    implied = owners - {"discarding"}
    return implied.pop() if implied else None


def _build(fields: Mapping[str, Any]) -> DeadLetterStrategy:
    kinds: dict[str, type[Any]] = {
        kind.STRATEGY: kind
        for kind in (IndividualDeadLetterStrategy, SharedDeadLetterStrategy, DiscardingDeadLetterStrategy)
    }
    arguments = dict(fields)
    kind = kinds[arguments.pop("strategy")]
    if kind is SharedDeadLetterStrategy and "name" not in arguments:
        message = "the shared strategy has no name. Pass the name of the dead-letter queue"
        raise PolicyError(message)
    strategy: DeadLetterStrategy = kind(**arguments)
    return strategy


def _fields_of_each() -> str:
    return "; ".join(f"{strategy} has {' and '.join(own)}" for strategy, own in OWN.items())


def _store(strategy: DeadLetterStrategy, expired: object, non_persistent: object, expiration: object) -> None:
    """Check and set what all strategies have."""
    check.store(
        strategy,
        process_expired=check.said(expired, "process_expired", check.flag),
        process_non_persistent=check.said(non_persistent, "process_non_persistent", check.flag),
        expiration=check.said(expiration, "expiration", check.period),
    )


def _interval(value: object, name: str) -> int:
    return check.whole(value, name, 1, check.MOST_REDELIVERIES)
