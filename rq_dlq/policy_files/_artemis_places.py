"""Where Artemis' messages go that died or expired, which three of its settings say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rq_dlq.policy_files._block import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.policy import Pattern
    from rq_dlq.policy_files._block import Block
    from rq_dlq.policy_files._patterns import Names


class Kind(NamedTuple):
    """Dead letters or expired messages: the settings, and the fields of ours.

    Attributes:
        part: of our entry.
        what: for people.
    """

    part: str
    what: str
    address: str
    auto: str
    prefix: str
    suffix: str
    default: str

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of all four."""
        return (self.address, self.auto, self.prefix, self.suffix)


LETTERS: Final = Kind(
    "dead_letter", "dead letters", "dead-letter-address", "auto-create-dead-letter-resources",
    "dead-letter-queue-prefix", "dead-letter-queue-suffix", "DLQ.",
)  # fmt: skip
EXPIRY: Final = Kind(
    "expiry", "expired messages", "expiry-address", "auto-create-expiry-resources",
    "expiry-queue-prefix", "expiry-queue-suffix", "EXP.",
)  # fmt: skip
PLACES: Final = (*LETTERS.settings, *EXPIRY.settings)


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """A block with its settings by name.

    Attributes:
        pattern: None: it has no counterpart.
    """

    block: Block
    pattern: Pattern | None
    settings: Mapping[str, Setting]

    @property
    def known(self) -> Pattern:
        """The pattern of a block that has one."""
        assert self.pattern is not None  # noqa: S101 - for the type checker
        return self.pattern

    @property
    def counts(self) -> bool:
        """Whether it becomes an entry."""
        return any("redelivery" in name or "expiry" in name or name in COUNTED for name in self.settings)


COUNTED: Final = {*PLACES, "max-delivery-attempts"}


def places(block: Block, one: Described, above: Sequence[Described], names: Names) -> None:
    """Say in full where both kinds go, if the block says anything of it."""
    said = {kind: [name for name in kind.settings if name in one.settings] for kind in (LETTERS, EXPIRY)}
    for kind in (LETTERS, EXPIRY):
        auto = one.settings.get(kind.auto)
        if auto is not None and block.flag(auto) is None:
            return
    dead, expired = (_name(kind, one, above) for kind in (LETTERS, EXPIRY))
    together = bool(dead) and dead == expired
    for kind in (LETTERS, EXPIRY):
        if said[kind]:
            _place(block, kind, one, above, names, together=together and kind is EXPIRY)
        elif not above and one.counts:
            _unsaid(block, kind, one)
    if any(said.values()) and dead:
        note = "the two addresses are one: what expires is a dead letter, too" if together else ""
        setting = one.settings.get(EXPIRY.address) or one.settings.get(LETTERS.address)
        told = setting if together and setting else Setting("", "", block.line)
        if together or _together_anywhere(above):
            block.becomes(told, "dead_letter.process_expired", together, note)


def _place(
    block: Block, kind: Kind, one: Described, above: Sequence[Described], names: Names, *, together: bool
) -> None:
    """One kind: its own queue for each, one for many, or none."""
    settings = one.settings
    address = _said(kind.address, one, above)
    if _automatic(kind, one, above):
        _individual(block, kind, one, above)
        return
    for name in (kind.auto, kind.prefix, kind.suffix):
        if name in settings:
            note = f"each queue has {kind.what} of its own only where {kind.auto} is true"
            block.passed_over(settings[name], "not needed", note)
    setting = settings.get(kind.address) or Setting(kind.address, "", block.line)
    if address is None:
        _unsaid(block, kind, one)
    elif not address.value:
        drops = ("strategy", "discarding") if kind is LETTERS else ("discard", True)
        block.becomes(setting, f"{kind.part}.{drops[0]}", drops[1], "empty: they are dropped, and counted")
    elif not together:
        if kind is LETTERS:
            block.becomes(setting, "dead_letter.strategy", "shared", "one address for all these queues")
        block.becomes(setting, f"{kind.part}.name", names.queue(address.value))


def _individual(block: Block, kind: Kind, one: Described, above: Sequence[Described]) -> None:
    settings = one.settings
    address = _said(kind.address, one, above)
    told = settings.get(kind.auto) or Setting(kind.auto, "", block.line)
    if kind is LETTERS:
        note = "" if address and address.value else f"Artemis needs a {kind.address}, too; here they are kept"
        block.becomes(told, "dead_letter.strategy", "individual", note)
    elif kind.auto in settings:
        block.passed_over(told, "not needed", "each queue has an expiry queue of its own, as named below")
    if kind.address in settings:
        note = f"{kind.auto} is true, so each queue has its own; no address is needed that leads there"
        block.passed_over(settings[kind.address], "not needed", note)
    for affix, name, default in (("prefix", kind.prefix, kind.default), ("suffix", kind.suffix, "")):
        found = _said(name, one, above)
        note = "" if name in settings else "Artemis' default" if found is None else f"of line {found.line}"
        setting = settings.get(name) or Setting(name, "", block.line)
        if found is not None or default:
            block.becomes(setting, f"{kind.part}.{affix}", default if found is None else found.value, note)


def _unsaid(block: Block, kind: Kind, one: Described) -> None:
    """Nothing says where they go: Artemis drops them, here they are kept."""
    drop = "--strategy discarding" if kind is LETTERS else "--discard-expired"
    note = f"not said, so Artemis drops {kind.what}; here each queue keeps its own ({drop} drops them)"
    block.passed_over(Setting(kind.address, "", one.block.line), "not needed", note)


def _said(name: str, one: Described, above: Sequence[Described]) -> Setting | None:
    """What the most specific block that says a setting says of it."""
    return next((other.settings[name] for other in (one, *above) if name in other.settings), None)


def _automatic(kind: Kind, one: Described, above: Sequence[Described]) -> bool:
    auto = _said(kind.auto, one, above)
    return auto is not None and auto.value.lower() == "true"


def _name(kind: Kind, one: Described, above: Sequence[Described]) -> str:
    """The one address of many queues; empty: there is none."""
    address = _said(kind.address, one, above)
    return "" if address is None or _automatic(kind, one, above) else address.value


def _together_anywhere(above: Sequence[Described]) -> bool:
    """Whether a more general block has one address for both, which this one must then deny."""
    for at, other in enumerate(above):
        dead, expired = (_name(kind, other, above[at + 1 :]) for kind in (LETTERS, EXPIRY))
        if dead and dead == expired:
            return True
    return False
