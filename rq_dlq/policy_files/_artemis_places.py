"""Converts Artemis' destinations of dead and expired messages, which depend on three settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from rq_dlq.policy_files._block import Block, Setting
    from rq_dlq.policy_files._patterns import Names


class Kind(NamedTuple):
    """Dead letters or expired messages: Artemis' settings, and our fields.

    Attributes:
        part: the part of our entry.
        what: the readable name.
        address: the setting for one common address.
        auto: the setting that gives each queue its own queue for them.
        prefix: the setting for the prefix of these queues.
        suffix: the setting for their suffix.
        default: Artemis' default prefix.
        aliases: our field with more names.
    """

    part: str
    what: str
    address: str
    auto: str
    prefix: str
    suffix: str
    default: str
    aliases: str

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of all four settings."""
        return (self.address, self.auto, self.prefix, self.suffix)


LETTERS: Final = Kind(
    "dead_letter", "dead letters", "dead-letter-address", "auto-create-dead-letter-resources",
    "dead-letter-queue-prefix", "dead-letter-queue-suffix", "DLQ.", "dead_letter_aliases",
)  # fmt: skip
EXPIRY: Final = Kind(
    "expiry", "expired messages", "expiry-address", "auto-create-expiry-resources",
    "expiry-queue-prefix", "expiry-queue-suffix", "EXP.", "expiry_aliases",
)  # fmt: skip
PLACES: Final = (*LETTERS.settings, *EXPIRY.settings)


COUNTED: Final = {*PLACES, "max-delivery-attempts"}


def counts(block: Block) -> bool:
    """Whether the block becomes an entry."""
    return any("redelivery" in name or "expiry" in name or name in COUNTED for name in block.settings)


Queues: TypeAlias = "Mapping[str, Sequence[str]] | None"
"""By address: the queues that the file configures on it. None: the file configures no addresses."""


def places(block: Block, above: Sequence[Block], names: Names, queues: Queues) -> None:
    """Convert the settings for both kinds, in full, if the block has any of them.

    `above` has the other blocks that apply to all its queues, the most specific first.
    """
    given = {kind: [name for name in kind.settings if name in block.settings] for kind in (LETTERS, EXPIRY)}
    for kind in (LETTERS, EXPIRY):
        if kind.auto in block.settings and block.flag(block.settings[kind.auto]) is None:
            return
    dead, expired = (_name(kind, block, above) for kind in (LETTERS, EXPIRY))
    together = bool(dead) and dead == expired
    for kind in (LETTERS,) if together else (LETTERS, EXPIRY):
        _doors(kind, block, above, names, queues)
    for kind in (LETTERS, EXPIRY):
        if given[kind]:
            _place(block, kind, above, names, together=together and kind is EXPIRY)
        elif not above and counts(block):
            _missing(block, kind)
    if any(given.values()) and dead:
        note = "both addresses are the same: expired messages become dead letters" if together else ""
        setting = block.settings.get(EXPIRY.address) or block.settings.get(LETTERS.address)
        source = setting if together and setting else block.itself
        if together or _together_anywhere(above):
            block.becomes(source, "dead_letter.process_expired", together, note)


def _place(block: Block, kind: Kind, above: Sequence[Block], names: Names, *, together: bool) -> None:
    """Convert the destination of one kind: one per queue, one for many queues, or none."""
    if _automatic(kind, block, above):
        _individual(block, kind, above)
        return
    for name in (kind.auto, kind.prefix, kind.suffix):
        if name in block.settings:
            note = f"each queue has its own {kind.what} only if {kind.auto} is true"
            block.passed_over(block.settings[name], "not needed", note)
    address, setting = _setting(kind.address, block, above), block.settings[kind.address]
    if address is None:
        _missing(block, kind)
    elif not address.value:
        drops = ("strategy", "discarding") if kind is LETTERS else ("discard", True)
        block.becomes(setting, f"{kind.part}.{drops[0]}", drops[1], "empty: they are dropped and counted")
    elif not together:
        if kind is LETTERS:
            block.becomes(setting, "dead_letter.strategy", "shared", "one address for all these queues")
        block.becomes(setting, f"{kind.part}.name", names.queue(address.value))


def _doors(kind: Kind, block: Block, above: Sequence[Block], names: Names, queues: Queues) -> None:
    """Convert the additional queues that get a copy in Artemis; here they are aliases of one queue."""
    found = _aliases(kind, block, above, names, queues)
    if found is None:
        return
    inherited = (_aliases(kind, other, above[at + 1 :], names, queues) for at, other in enumerate(above))
    setting = block.settings[kind.address]
    if found:
        note = f"its readers also get the {kind.what}; each exists once, without a copy for each queue"
        block.becomes(setting, kind.aliases, " ".join(found), note)
    elif next((other for other in inherited if other is not None), None):
        block.becomes(setting, kind.aliases, None, "those of a more general block do not get them")
    address = _setting(kind.address, block, above)
    name = "" if address is None or _automatic(kind, block, above) else address.value
    if queues is not None and name and "::" not in name and not queues.get(name):
        note = f"no queue is configured on it, so Artemis drops its {kind.what} unless a reader created one"
        block.passed_over(setting, "not needed", f"{note}; here they are kept")


def _aliases(
    kind: Kind, block: Block, above: Sequence[Block], names: Names, queues: Queues
) -> list[str] | None:
    """The additional queues that get dead or expired messages; None: the block does not configure any."""
    if kind.auto not in block.settings and kind.address not in block.settings:
        return None
    address = _setting(kind.address, block, above)
    if address is None or not address.value:
        return []
    own, automatic = names.queue(address.value), _automatic(kind, block, above)
    others = (
        [] if "::" in address.value else [names.queue(name) for name in (queues or {}).get(address.value, ())]
    )
    return list(dict.fromkeys(name for name in [own, *others] if automatic or name != own))


def _individual(block: Block, kind: Kind, above: Sequence[Block]) -> None:
    settings = block.settings
    address = _setting(kind.address, block, above)
    if kind is LETTERS:
        note = "" if address and address.value else f"Artemis also needs a {kind.address}; here they are kept"
        block.becomes(settings[kind.auto], "dead_letter.strategy", "individual", note)
    elif kind.auto in settings:
        block.passed_over(
            settings[kind.auto], "not needed", "each queue has its own expiry queue, named as below"
        )
    if kind.address in settings:
        note = f"{kind.auto} is true, so each queue has its own"
        block.passed_over(settings[kind.address], "not needed", note)
    for affix, name, default in (("prefix", kind.prefix, kind.default), ("suffix", kind.suffix, "")):
        found = _setting(name, block, above)
        note = "" if name in settings else "Artemis' default" if found is None else f"of line {found.line}"
        value = default if found is None else found.value
        if found is not None or default:
            block.becomes(settings[name], f"{kind.part}.{affix}", value, note)


def _missing(block: Block, kind: Kind) -> None:
    """Note that no setting names an address: Artemis drops these messages; here they are kept."""
    drop = "--strategy discarding" if kind is LETTERS else "--discard-expired"
    note = f"missing, so Artemis drops {kind.what}; here each queue keeps its own ({drop} drops them)"
    block.passed_over(block.settings[kind.address], "not needed", note)


def _setting(name: str, block: Block, above: Sequence[Block]) -> Setting | None:
    """A setting, from the most specific block that has it."""
    return next((other.settings[name] for other in (block, *above) if name in other.settings), None)


def _automatic(kind: Kind, block: Block, above: Sequence[Block]) -> bool:
    auto = _setting(kind.auto, block, above)
    return auto is not None and auto.value.lower() == "true"


def _name(kind: Kind, block: Block, above: Sequence[Block]) -> str:
    """The address that many queues share; empty: none."""
    address = _setting(kind.address, block, above)
    return "" if address is None or _automatic(kind, block, above) else address.value


def _together_anywhere(above: Sequence[Block]) -> bool:
    """Whether a more general block has one address for both kinds, which this block must undo."""
    for at, other in enumerate(above):
        dead, expired = (_name(kind, other, above[at + 1 :]) for kind in (LETTERS, EXPIRY))
        if dead and dead == expired:
            return True
    return False
