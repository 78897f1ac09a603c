"""The names that policies give to dead letters and to expired messages: which of them are allowed.

A name may belong to a queue, which then shows both; a queue's own name is not given to its own dead letters.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rq_dlq.errors import InvalidName, PolicyError, UpgradeRequired
from rq_dlq.policy.policy_map import DECLARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rq_dlq.policy import Entry, Pattern, PolicyMap, QueueSettings
    from rq_dlq.values.names import Naming

logger = logging.getLogger("rq_dlq")
ALIASES: Final = {"dead_letter": "dead_letter_aliases", "expiry": "expiry_aliases"}
"""By part: the field with more names for what is there."""


class Given(NamedTuple):
    """The names of a queue's dead-letter and expiry queues, and the aliases of both."""

    dead: str
    expired: str
    dead_aliases: Sequence[str]
    expired_aliases: Sequence[str]

    def unusual(self, family: str, naming: Naming) -> list[str]:
        """The names that a policy gave."""
        usual = usual_names(family, naming)
        names = [name for name in (self.dead, self.expired) if name not in usual]
        return [*names, *self.dead_aliases, *self.expired_aliases]

    def written(self) -> str:
        """As the queue's settings have it."""
        cells = (self.dead, self.expired, " ".join(self.dead_aliases), " ".join(self.expired_aliases))
        return "\t".join(cells).rstrip("\t")


def usual_names(family: str, naming: Naming) -> tuple[str, str]:
    """The names of a queue's dead-letter and expiry queues if policies give no others."""
    return naming.dead.of(family), naming.expired.of(family)


def given_names(settings: QueueSettings, family: str, naming: Naming, *, strict: bool) -> Given:
    """The names that a queue's settings give to its dead letters, without those that are not allowed.

    Args:
        strict: raise an error if the program itself declared such a name.

    Raises:
        PolicyError: it did.
    """
    names: list[str] = []
    asked = settings.dead_name, settings.expired_name
    for name, usual in zip(asked, usual_names(family, naming), strict=True):
        problem = None if name == usual else _problem(name, family, naming)
        if problem and strict and _declares_name(settings, name):
            raise PolicyError(problem)
        if problem:
            logger.warning("%s keeps its own name, since %s", usual, problem)
        names.append(usual if problem else name)
    aliases: list[list[str]] = []
    for field, own in zip(ALIASES.values(), names, strict=True):
        aliases.append([])
        for name in (getattr(settings, field) or "").split():
            problem = _problem(name, family, naming)
            if problem and strict and _is_declared(settings, field):
                raise PolicyError(problem)
            if problem and name != family:
                logger.warning("what fails in %s is not in %s, too: %s", family, name, problem)
            elif name not in {own, family}:
                aliases[-1].append(name)
    return Given(names[0], names[1], *aliases)


def _problem(name: str, family: str, naming: Naming) -> str | None:
    """Why a name is not allowed for a queue's dead letters; None: it is, even another queue's usual one."""
    if name == family:
        return f"{family!r} cannot be its own dead-letter or expiry queue: choose another name"
    return _unusable(name, naming)


def _unusable(name: str, naming: Naming) -> str | None:
    try:
        naming.resolve(name)
    except InvalidName as error:
        return str(error)
    return None


def _declares_name(settings: QueueSettings, name: str) -> bool:
    """Whether the program itself declared the name."""
    parts = (settings.dead_name, "dead_letter"), (settings.expired_name, "expiry")
    fields = [
        f"{part}.{field}" for other, part in parts for field in ("name", "prefix", "suffix") if other == name
    ]
    return any(_is_declared(settings, field) for field in fields)


def _is_declared(settings: QueueSettings, field: str) -> bool:
    return any((one.field, one.source) == (field, DECLARED) for one in settings.sources)


def check_not_own(family: str, entry: Entry) -> None:
    """Check that an entry for one queue does not give that queue's name to messages that fail in it.

    Raises:
        PolicyError: it does.
    """
    if family in {*_names_in(entry)}:
        message = f"{family!r} cannot be its own dead-letter or expiry queue: choose another name"
        raise PolicyError(message)


def _names_in(entry: Entry) -> Iterator[str]:
    for part, aliases in ALIASES.items():
        if name := entry.part(part).get("name"):
            yield str(name)
        yield from str(entry.fields().get(aliases) or "").split()


def check_names(stored: PolicyMap, pattern: Pattern, entry: Entry, families: Sequence[str]) -> None:
    """Check the names that an entry gives.

    Raises:
        PolicyError: a name for dead letters or expired messages cannot be given.
    """
    check_not_own(pattern.text, entry)
    changed = replace(stored, entries={**stored.entries, pattern.text: entry})
    given = {*_names_in(entry)}
    affixed = any(affix in entry.part(part) for part in ALIASES for affix in ("prefix", "suffix"))
    for family in filter(pattern.matches, families) if affixed else ():
        try:
            settings = changed.settings(family)
        except UpgradeRequired:  # reported when the entry is applied
            continue
        given |= {settings.dead_name, settings.expired_name} - {*usual_names(family, stored.naming)}
    for problem in [_unusable(name, stored.naming) for name in sorted(given)]:
        if problem:
            raise PolicyError(problem)
