"""The settings of a queue: one table, with a row for each field.

All code that reads, writes or shows settings uses this table. A new setting needs a row here, the Lua that
implements it, and its type in `settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from msgspec import UNSET, UnsetType

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy import breaker, patterns, per_key, rate
from rq_dlq.policy.arithmetic import Backoff
from rq_dlq.policy.presets import JAVA_LONG, ActiveMQRedelivery, ArtemisRedelivery
from rq_dlq.values.durations import TEN_YEARS, shown
from rq_dlq.values.later import upgrade

if TYPE_CHECKING:
    from rq_dlq.policy._checks import JSON, Check
    from rq_dlq.values.names import Template

Kind: TypeAlias = Literal["SPAN", "SPAN,SPAN,…", "NUMBER", "N", "N/SPAN", "BYTES", "NAME", "flag"]
"""The metavar of an option on the command line."""

PARTS: Final = ("redelivery", "dead_letter", "expiry")
"""The groups of fields; other fields are in no group."""

ARITHMETICS: Final = (Backoff.NAME, ArtemisRedelivery.NAME, ActiveMQRedelivery.NAME)
STRATEGIES: Final = ("individual", "shared", "discarding")
REPORT_INTERVAL: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A row of the table.

    Attributes:
        where: the part and the name of the field: "redelivery.initial_delay", "max_in_flight".
        kind: the metavar on the command line. Durations are whole milliseconds in Redis.
        given: checks a user's value.
        stored: checks the value in Redis; None: `given` does.
        default: the value if no entry sets the field; UNSET: it depends on other fields.
        none: the word for None on the command line and in TOML.
        option: the option on the command line; a flag has two, "--no-expiry/--may-expire".
        help: the help of that option.
        strategy: the only dead-letter strategy with this field; empty: all have it.
        artemis: the equivalent setting in Artemis' broker.xml.
        classic: the equivalent settings in Classic's activemq.xml, together.
    """

    where: str
    kind: Kind
    given: Check
    stored: Check | None = None
    default: JSON | UnsetType = UNSET
    none: str = ""
    option: str
    help: str
    strategy: str = ""
    artemis: str = ""
    classic: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """One of `PARTS`; empty: the field is in none of them."""
        return self.where.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The field's name within its part."""
        return self.where.rpartition(".")[2]

    @property
    def read(self) -> Check:
        """The check of the value in Redis."""
        return self.stored or self.given

    @property
    def in_ms(self) -> bool:
        """Whether its value in Redis is in whole milliseconds."""
        return self.kind in {"SPAN", "SPAN,SPAN,…"}


def _ms(low: int, high: int) -> Check:
    """A check for milliseconds in Redis, including the Java longs of the presets."""
    return lambda value, name: check.whole(value, f"{name}, in milliseconds,", low, high)


def _stored_waits(value: object, name: str) -> list[int]:
    if not isinstance(value, list) or not value:
        raise PolicyError(f"{name} is {shown(value)}. Pass a list of milliseconds")  # pyright: ignore[reportUnknownArgumentType]
    return [_ms(0, TEN_YEARS)(wait, name) for wait in cast("list[object]", value)]


LONG, ANY_LONG, WHILE = _ms(0, JAVA_LONG), _ms(-JAVA_LONG, JAVA_LONG), _ms(1, TEN_YEARS)
PERIOD: Final[Mapping[str, Any]] = {
    "kind": "SPAN",
    "given": check.or_none(lambda value, name: check.duration(value, name, 1)),
    "stored": check.or_none(WHILE),
    "default": None,
}
"""The columns that are the same for all optional durations."""

TABLE: Final = (
    Field(where="redelivery.initial_delay", kind="SPAN", given=check.duration, stored=LONG,
          option="--initial-delay", help="The wait before the first redelivery.",
          artemis="redelivery-delay", classic=("initialRedeliveryDelay",)),
    Field(where="redelivery.multiplier", kind="NUMBER", given=check.growth,
          option="--multiplier", help="The factor by which each wait grows, 1 or more.",
          artemis="redelivery-delay-multiplier", classic=("backOffMultiplier", "useExponentialBackOff")),
    Field(where="redelivery.max_delay", kind="SPAN", none="unlimited",
          given=check.or_none(check.duration), stored=check.or_none(LONG),
          option="--max-delay", help="The longest wait, or `unlimited`.",
          artemis="max-redelivery-delay", classic=("maximumRedeliveryDelay",)),
    Field(where="redelivery.collision_avoidance", kind="NUMBER", given=check.part,
          option="--collision-avoidance", help="How far waits are randomized: a fraction of them, 0 to 1.",
          artemis="redelivery-collision-avoidance-factor",
          classic=("collisionAvoidancePercent", "useCollisionAvoidance")),
    Field(where="redelivery.max_redeliveries", kind="N", given=check.redeliveries, none="unlimited",
          option="--max-redeliveries", help="How many times a message is redelivered, or `unlimited`.",
          artemis="max-delivery-attempts", classic=("maximumRedeliveries",)),
    Field(where="redelivery.delays", kind="SPAN,SPAN,…", none="none",
          given=check.or_none(lambda value, name: list(check.durations(cast("Any", value), name))),
          stored=check.or_none(_stored_waits),
          option="--delays", help="A list of waits; the last one is repeated."),
    Field(where="redelivery.arithmetic", kind="NAME", given=check.one_of(ARITHMETICS),
          option="--arithmetic", help="Whose rules compute the waits: rq, artemis or activemq."),
    Field(where="redelivery.redelivery_delay", kind="SPAN", given=check.duration, stored=ANY_LONG,
          option="--redelivery-delay", help="ActiveMQ Classic's wait from the second redelivery on.",
          classic=("redeliveryDelay",)),
    Field(where="dead_letter.strategy", kind="NAME", given=check.one_of(STRATEGIES), default="individual",
          option="--strategy", help="Where dead letters go: individual, shared or discarding."),
    Field(where="dead_letter.name", kind="NAME", given=check.queue_name, strategy="shared",
          option="--dlq-name", help="The name of the dead-letter queue (strategy shared)."),
    Field(where="dead_letter.prefix", kind="NAME", given=check.affix, strategy="individual",
          option="--prefix", help="Put before the queue's name to name its dead-letter queue (individual)."),
    Field(where="dead_letter.suffix", kind="NAME", given=check.affix, strategy="individual",
          option="--suffix", help="Put after the queue's name (individual)."),
    Field(where="dead_letter.only", kind="NAME", given=check.or_none(patterns.names), strategy="discarding",
          default=None, none="all",
          option="--only", help="Drop the dead letters of these queues only (discarding), or `all`."),
    Field(where="dead_letter.report_interval", kind="N", strategy="discarding", default=REPORT_INTERVAL,
          given=lambda value, name: check.whole(value, name, 1, check.LARGEST_WHOLE),
          option="--report-interval", help="Log one line for this many dropped messages."),
    Field(where="dead_letter.process_expired", kind="flag", given=check.flag, default=False,
          option="--process-expired/--no-process-expired", help="Expired messages become dead letters."),
    Field(where="dead_letter.process_non_persistent", kind="flag", given=check.flag, default=True,
          option="--process-non-persistent/--no-process-non-persistent",
          help="Keep messages that were sent with persistent=False when they die."),
    Field(where="dead_letter.expiration", **PERIOD, none="never",
          option="--expiration", help="Drop a dead letter after this time, or `never`."),
    Field(where="expiry.expiry_delay", **PERIOD, none="none", artemis="expiry-delay",
          option="--expiry-delay", help="The time to live of messages that are sent without one, or `none`."),
    Field(where="expiry.min_expiry_delay", **PERIOD, none="none", artemis="min-expiry-delay",
          option="--min-expiry-delay", help="The shortest time to live, or `none`."),
    Field(where="expiry.max_expiry_delay", **PERIOD, none="none", artemis="max-expiry-delay",
          option="--max-expiry-delay",
          help="The longest time to live, or `none`; messages without one get it."),
    Field(where="expiry.no_expiry", kind="flag", given=check.flag, default=False,
          option="--no-expiry/--may-expire", help="Messages never expire, whatever their time to live.",
          artemis="no-expiry"),
    Field(where="expiry.retention", **PERIOD, none="forever",
          option="--retention", help="Drop an expired message after this time, or keep it `forever`."),
    Field(where="expiry.discard", kind="flag", given=check.flag, default=False,
          option="--discard-expired/--no-discard-expired", help="Drop expired messages, and count them."),
    Field(where="expiry.name", kind="NAME", given=check.or_none(check.queue_name), default=None, none="none",
          option="--expiry-name", help="The name of one expiry queue for many queues, or `none`."),
    Field(where="expiry.prefix", kind="NAME", given=check.affix,
          option="--expiry-prefix", help="Put before the queue's name to name its own expiry queue."),
    Field(where="expiry.suffix", kind="NAME", given=check.affix,
          option="--expiry-suffix", help="Put after the queue's name."),
    Field(where="max_length", kind="N", given=check.count(1, "no limit"), default=None, none="unlimited",
          option="--max-length", help="How many messages may be ready, scheduled or leased, or `unlimited`."),
    Field(where="max_in_flight", kind="N", given=check.count(1, "no limit"), default=None, none="unlimited",
          option="--max-in-flight", help="How many messages may be leased at a time, or `unlimited`."),
    Field(where="rate", kind="N/SPAN", given=rate.given, default=None, none="unlimited",
          option="--rate", help="How many messages are delivered per time: 100/s, 5/10m, or `unlimited`."),
    Field(where="outcomes", kind="N", given=check.count(0, "no outcome history"), default=None, none="none",
          option="--outcomes", help="About how many events the outcome history keeps, or `none`."),
    Field(where="dedup_window", **PERIOD, none="none",
          option="--dedup-window", help="How long the ids of acked messages are remembered, or `none`."),
    Field(where="dead_letter_aliases", kind="NAME", given=check.queue_names, default=None, none="none",
          option="--dead-letter-aliases", help="More dead-letter names, with spaces, or `none`."),
    Field(where="expiry_aliases", kind="NAME", given=check.queue_names, default=None, none="none",
          option="--expiry-aliases", help="More names of its expiry queue, with spaces, or `none`."),
    Field(where="per_key", kind="NAME", given=per_key.given, stored=per_key.stored, default=None, none="none",
          option="--per-key", help='The rule for each key: order, "limit 8", fair, "rate 9/s"; `none`.'),
    Field(where="results", **PERIOD, none="none",
          option="--results", help="How long the results of all its messages are kept, or `none`."),
    Field(where="results_bytes", kind="BYTES", given=check.size, default=None, none="usual",
          option="--results-bytes", help="The memory for its results, such as 64MB; `usual` is 64MB."),
    Field(where="breaker", kind="NAME", given=breaker.given, stored=per_key.stored, default=None, none="none",
          option="--breaker", help='Park messages of a dependency that is down: on, "distinct=9"; `none`.'),
)  # fmt: skip

FIELDS: Final[Mapping[str, Field]] = {field.where: field for field in TABLE}
BY_PART: Final[Mapping[str, Mapping[str, Field]]] = {
    part: {field.name: field for field in TABLE if field.part == part} for part in PARTS
}
"""The fields of a part, by their names."""
PLAIN: Final = tuple(field for field in TABLE if not field.part)
"""The fields outside the parts; their values in a queue's settings are text."""
SETTABLE: Final = (*PARTS, *(field.name for field in PLAIN))
"""The top-level names that an entry may set."""
WRITTEN: Final = (*SETTABLE, "names")
"""The fields of a queue's settings in Redis that are computed from entries."""

KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "redelivery": ("arithmetic", ARITHMETICS),
    "dead_letter": ("strategy", STRATEGIES),
}
"""By part: the field that names its kind, and the possible kinds."""


def later_kind(part: str, fields: Mapping[str, Any]) -> str:
    """The kind of a part, if it is unknown to this version; otherwise empty."""
    name, known = KINDS.get(part, ("", ()))
    kind = fields.get(name)
    return kind if isinstance(kind, str) and kind not in known else ""


def check_kind(part: str, fields: Mapping[str, Any], family: str) -> None:
    """Refuse a part whose kind only a later version knows: it must not be treated as another kind.

    Raises:
        UpgradeRequired: the kind is unknown.
    """
    if kind := later_kind(part, fields):
        raise upgrade(f"the policy of {family!r}, whose {KINDS[part][0]} is {kind!r},", "")


def meant(where: str, value: Any) -> Any:
    """A value from the command line; None if it is the field's word for None, or `none`."""
    row = FIELDS.get(where)
    if row is None or not row.none:
        return value
    words = {row.none} if row.kind == "NAME" else {row.none, "none"}
    return None if isinstance(value, str) and value in words else value


def store(part: str, policy: object, **given: object) -> None:
    """Check a user's fields of a part and set them in a frozen policy; durations become seconds."""
    rows = BY_PART[part]
    for name, value in given.items():
        checked = value if value is UNSET else in_seconds(rows[name], rows[name].given(value, name))
        check.store(policy, **{name: checked})


def with_defaults(part: str, given: Mapping[str, JSON], naming: Template) -> dict[str, Any]:
    """The fields of a part, as in Redis, with defaults for those not given."""
    defaults = {name: row.default for name, row in BY_PART[part].items() if row.default is not UNSET}
    return {**defaults, "prefix": naming.prefix, "suffix": naming.suffix, **given}


def from_wire(part: str, fields: Mapping[str, object]) -> dict[str, Any]:
    """The fields of a part in Redis as arguments of a policy; durations are checked and become seconds."""
    rows = BY_PART[part]
    return {
        name: in_seconds(rows[name], rows[name].read(value, name)) if rows[name].in_ms else value
        for name, value in fields.items()
    }


def to_wire(part: str, policy: object, **more: JSON) -> dict[str, JSON]:
    """The fields that a policy sets, as in Redis; `more` has fields that are not in the policy."""
    wire: dict[str, JSON] = {}
    for name, field in BY_PART[part].items():
        value: Any = more.get(name, getattr(policy, name, UNSET))
        if value is not UNSET:
            wire[name] = in_redis(field, value)
    return wire


def in_redis(field: Field, value: Any) -> Any:
    """A policy's value, as stored in Redis."""
    if isinstance(value, per_key.PerKey | breaker.Breaker):
        return str(value)
    return round(value * 1000) if field.in_ms and value is not None else value


def in_seconds(field: Field, value: Any) -> Any:
    """A value in Redis, as held by a policy."""
    if value is None or not field.in_ms:
        return value
    return value / 1000 if field.kind == "SPAN" else tuple(wait / 1000 for wait in value)
