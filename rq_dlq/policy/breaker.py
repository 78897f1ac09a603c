"""The circuit breaker of a queue: its rule for when a dependency of messages counts as down."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from rq_dlq.errors import PolicyError
from rq_dlq.policy import _checks as check
from rq_dlq.policy.per_key import stored
from rq_dlq.values.counted import UNREACHABLE
from rq_dlq.values.durations import shown
from rq_dlq.values.later import upgrade

if TYPE_CHECKING:
    from rq_dlq.values.durations import Duration

__all__ = ["Breaker", "given", "in_force", "stored"]

MOST_DISTINCT: Final = 100
LONGEST: Final = 3_600_000  # milliseconds
_NAMES: Final = ("distinct", "within", "share", "probe", "longest_probe")
_PAIR = re.compile(r"([a-z_]+)=(\S+)")
_GRAMMAR = 'on, or "distinct=20 within=30s share=0.5 probe=1s longest_probe=30s", or some of these'


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A circuit breaker: a queue parks the messages of a dependency that is down, without charging them.

    It opens by one of two signs, each of `distinct` different messages with this dependency. A run: so many
    have failed without a success between them, however slowly. A share: so many have failed at their first
    attempts within a window of time, and they are at least `share` of those that have ended in it. While it
    is open, up to three messages at a time are delivered, as a probe. The first success closes it, and the
    other messages follow as earlier ones succeed.

    Attributes:
        distinct: how many different messages must fail, 2 to 100; one message alone never opens it.
        within: the length of the window, seconds; at most an hour.
        share: the fraction of first attempts in the window that must have failed, 0 to 1.
        probe: seconds until the first probe; the wait doubles with each probe.
        longest_probe: the longest wait between two probes, seconds; at most an hour.
        errors: the errors that count as failures of the dependency: classes, or names of classes with their
            modules, such as "httpx.TransportError", which need no import. Subclasses count, too, and errors
            that have one of them among their causes. `Breaker.UNREACHABLE` has those of common clients.
            Empty: every error that charges a message, so not fatal errors, `Poison` and
            `Redeliver(charge=False)`. The client checks them; they are not stored in Redis.
        UNREACHABLE: names of the errors that common clients raise if a service cannot be reached or does not
            answer. gRPC has one class for all failures, which is among them. An HTTP status such as 503 has
            none: add the class that your client raises, `(*Breaker.UNREACHABLE, "httpx.HTTPStatusError")`.

    Raises:
        PolicyError: a value is not valid.

    Examples:
        >>> orders = broker.queue("paid", breaker=Breaker(distinct=5))
        >>> orders.send({"total": 9.5}, id="order-46", dependency="payments")
        'order-46'
        >>> breaker = Breaker(errors=Breaker.UNREACHABLE)
    """

    UNREACHABLE: ClassVar[tuple[str, ...]] = UNREACHABLE

    distinct: int = 20
    within: Duration = 30.0
    share: float = 0.5
    probe: Duration = 1.0
    longest_probe: Duration = 30.0
    errors: Iterable[type[BaseException] | str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Check the values, and store durations as seconds."""
        check.whole(self.distinct, "breaker.distinct", 2, MOST_DISTINCT)
        spans = {name: getattr(self, name) for name in ("within", "probe", "longest_probe")}
        ms = {name: check.duration(value, f"breaker.{name}", 1) for name, value in spans.items()}
        for name, span in ms.items():
            if span > LONGEST:
                raise PolicyError(f"breaker.{name} is {shown(spans[name])}. Pass an hour at most")
        if ms["probe"] > ms["longest_probe"]:
            raise PolicyError("breaker.probe is longer than breaker.longest_probe. Pass a shorter probe")
        check.store(
            self,
            **{name: span / 1000 for name, span in ms.items()},
            share=check.number(self.share, "breaker.share", 0, 1),
            errors=check.exceptions_or_names(self.errors, "breaker.errors"),
        )

    def __str__(self) -> str:
        spans = (
            f"{name}={round(getattr(self, name) * 1000)}ms" for name in ("within", "probe", "longest_probe")
        )
        within, probe, longest = spans
        return f"distinct={self.distinct} {within} share={self.share:g} {probe} {longest}"

    @classmethod
    def of(cls, given: object) -> Breaker:
        """The breaker for an argument: a breaker, True, its text, or a mapping of its fields.

        Raises:
            PolicyError: it is not a breaker.
        """
        if isinstance(given, Breaker):
            return given
        if given is True or given == "on":
            return cls()
        if isinstance(given, Mapping):
            return cls(**check.fields(cast("Mapping[str, Any]", given), _NAMES, "breaker"))
        pairs = [_PAIR.fullmatch(word) for word in given.split()] if isinstance(given, str) else [None]
        if not pairs or not all(pairs):
            raise PolicyError(f"breaker is {shown(given)}. Pass Breaker(), or text: {_GRAMMAR}")
        said = {pair[1]: _number(pair[1], pair[2]) for pair in pairs if pair}
        return cls(**check.fields(said, _NAMES, "breaker"))


def _number(name: str, text: str) -> Any:
    """A value in the text of a breaker: a number or a duration."""
    if name not in {"distinct", "share"}:
        return text
    try:
        return int(text) if name == "distinct" else float(text)
    except ValueError:
        return text


def given(value: object, _: str) -> str | None:
    """The argument `breaker` as text; None: no breaker."""
    return None if value is None or value is False else str(Breaker.of(value))


def in_force(text: str | None, family: str) -> Breaker | None:
    """The breaker in force for a queue.

    Raises:
        UpgradeRequired: only a later version can read it.
    """
    try:
        return None if text is None else Breaker.of(text)
    except PolicyError:
        raise upgrade(f"the policy of {family!r}, whose breaker is {shown(text)},", "") from None
