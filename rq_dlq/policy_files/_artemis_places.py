"""Where Artemis sends dead and expired messages, which three of its settings decide together."""

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
    """Dead letters or expired messages: Artemis' settings, and our fields.

    Attributes:
        part: of our entry.
        what: the name for people.
        address: the setting for one common address.
        auto: the setting that gives each queue its own.
        prefix: the setting for the prefix of the names then.
        suffix: the setting for their suffix.
        default: Artemis' prefix.
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
        block: with the findings and problems so far.
        pattern: None: it has no counterpart.
        settings: by name.
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
    """Convert the settings for both kinds, in full, if the block has any of them."""
    given = {kind: [name for name in kind.settings if name in one.settings] for kind in (LETTERS, EXPIRY)}
    for kind in (LETTERS, EXPIRY):
        auto = one.settings.get(kind.auto)
        if auto is not None and block.flag(auto) is None:
            return
    dead, expired = (_name(kind, one, above) for kind in (LETTERS, EXPIRY))
    together = bool(dead) and dead == expired
    for kind in (LETTERS, EXPIRY):
        if given[kind]:
            _place(block, kind, one, above, names, together=together and kind is EXPIRY)
        elif not above and one.counts:
            _missing(block, kind, one)
    if any(given.values()) and dead:
        note = "both addresses are the same: expired messages are dead letters, too" if together else ""
        setting = one.settings.get(EXPIRY.address) or one.settings.get(LETTERS.address)
        source = setting if together and setting else Setting("", "", block.line)
        if together or _together_anywhere(above):
            block.becomes(source, "dead_letter.process_expired", together, note)


def _place(
    block: Block, kind: Kind, one: Described, above: Sequence[Described], names: Names, *, together: bool
) -> None:
    """Convert one kind: each queue has its own, many share one, or there is none."""
    settings = one.settings
    address = _setting(kind.address, one, above)
    if _automatic(kind, one, above):
        _individual(block, kind, one, above)
        return
    for name in (kind.auto, kind.prefix, kind.suffix):
        if name in settings:
            note = f"each queue has its own {kind.what} only if {kind.auto} is true"
            block.passed_over(settings[name], "not needed", note)
    setting = settings.get(kind.address) or Setting(kind.address, "", block.line)
    if address is None:
        _missing(block, kind, one)
    elif not address.value:
        drops = ("strategy", "discarding") if kind is LETTERS else ("discard", True)
        block.becomes(setting, f"{kind.part}.{drops[0]}", drops[1], "empty: they are dropped and counted")
    elif not together:
        if kind is LETTERS:
            block.becomes(setting, "dead_letter.strategy", "shared", "one address for all these queues")
        block.becomes(setting, f"{kind.part}.name", names.queue(address.value))


def _individual(block: Block, kind: Kind, one: Described, above: Sequence[Described]) -> None:
    settings = one.settings
    address = _setting(kind.address, one, above)
    auto = settings.get(kind.auto) or Setting(kind.auto, "", block.line)
    if kind is LETTERS:
        note = "" if address and address.value else f"Artemis needs a {kind.address}, too; here they are kept"
        block.becomes(auto, "dead_letter.strategy", "individual", note)
    elif kind.auto in settings:
        block.passed_over(auto, "not needed", "each queue has its own expiry queue, named as below")
    if kind.address in settings:
        note = f"{kind.auto} is true, so each queue has its own and needs no address"
        block.passed_over(settings[kind.address], "not needed", note)
    for affix, name, default in (("prefix", kind.prefix, kind.default), ("suffix", kind.suffix, "")):
        found = _setting(name, one, above)
        note = "" if name in settings else "Artemis' default" if found is None else f"of line {found.line}"
        setting = settings.get(name) or Setting(name, "", block.line)
        if found is not None or default:
            block.becomes(setting, f"{kind.part}.{affix}", default if found is None else found.value, note)


def _missing(block: Block, kind: Kind, one: Described) -> None:
    """No setting names an address: Artemis drops them, here they are kept."""
    drop = "--strategy discarding" if kind is LETTERS else "--discard-expired"
    note = f"missing, so Artemis drops {kind.what}; here each queue keeps its own ({drop} drops them)"
    block.passed_over(Setting(kind.address, "", one.block.line), "not needed", note)


def _setting(name: str, one: Described, above: Sequence[Described]) -> Setting | None:
    """A setting, from the most specific block that has it."""
    return next((other.settings[name] for other in (one, *above) if name in other.settings), None)


def _automatic(kind: Kind, one: Described, above: Sequence[Described]) -> bool:
    auto = _setting(kind.auto, one, above)
    return auto is not None and auto.value.lower() == "true"


def _name(kind: Kind, one: Described, above: Sequence[Described]) -> str:
    """The address that many queues share; empty: there is none."""
    address = _setting(kind.address, one, above)
    return "" if address is None or _automatic(kind, one, above) else address.value


def _together_anywhere(above: Sequence[Described]) -> bool:
    """Whether a more general block has one address for both kinds, which this block has to undo."""
    for at, other in enumerate(above):
        dead, expired = (_name(kind, other, above[at + 1 :]) for kind in (LETTERS, EXPIRY))
        if dead and dead == expired:
            return True
    return False
