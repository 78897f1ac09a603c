"""The names that policies give to dead letters and to expired messages: which of them can be given.

A name that is a queue's own is not given, since that queue would be hidden.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from rq_dlq.core.policies import calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.registry import in_use, unlist
from rq_dlq.core.steps.senders import Senders, once
from rq_dlq.core.steps.step import Batch, Steps
from rq_dlq.errors import InvalidName, PolicyError, UpgradeRequired
from rq_dlq.policy.policy_map import DECLARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.policy import Entry, Pattern, PolicyMap, QueueSettings
    from rq_dlq.values.names import Naming

logger = logging.getLogger("rq_dlq")


def usual_names(family: str, naming: Naming) -> tuple[str, str]:
    """The names of a queue's dead-letter and expiry queues where no policy gives others."""
    return naming.dead.of(family), naming.expired.of(family)


def free_names(
    settings: QueueSettings, keys: QueueKeys, naming: Naming, *, strict: bool
) -> Steps[tuple[str, str]]:
    """The names of a queue's dead-letter and expiry queues.

    The name of an existing queue is not given, since it would hide that queue.

    Args:
        strict: raise an error if the program itself declared such a name.

    Raises:
        PolicyError: it did.
    """
    names: list[str] = []
    asked = settings.dead_name, settings.expired_name
    for name, usual in zip(asked, usual_names(keys.family, naming), strict=True):
        problem = None if name == usual else _unusable(name, naming)
        if name != usual and not problem and (yield from in_use(replace(keys, family=name))):
            problem = why_taken(name)
        if problem and strict and declares(settings, name):
            raise PolicyError(problem)
        if problem:
            logger.warning("%s keeps its own name, since %s", usual, problem)
        names.append(usual if problem else name)
    return names[0], names[1]


def free_aliases(
    settings: QueueSettings, keys: QueueKeys, naming: Naming, names: Sequence[str], *, strict: bool
) -> Steps[list[str]]:
    """The aliases of a queue's dead-letter queue that can be given; see `free_names`.

    Raises:
        PolicyError: the program itself declared one that cannot.
    """
    aliases: list[str] = []
    for name in (settings.dead_letter_aliases or "").split():
        if name in names:
            continue
        problem = why_taken(name) if name == keys.family else _unusable(name, naming)
        if not problem and (yield from in_use(replace(keys, family=name))):
            problem = why_taken(name)
        if problem and strict and _declares_alias(settings):
            raise PolicyError(problem)
        if problem:
            logger.warning("the dead letters of %s are not in %s, too: %s", keys.family, name, problem)
        else:
            aliases.append(name)
    return aliases


def _declares_alias(settings: QueueSettings) -> bool:
    return any((one.field, one.source) == ("dead_letter_aliases", DECLARED) for one in settings.sources)


def _unusable(name: str, naming: Naming) -> str | None:
    """Why a name cannot be given; None: it can, also if it is the usual name of a queue's dead letters."""
    try:
        naming.resolve(name)
    except InvalidName as error:
        return str(error)
    return None


def why_taken(name: str) -> str:
    """Why the name of a queue cannot be given."""
    return (
        f"{name!r} is a queue of its own: choose another name for the dead letters or expired messages of "
        f"other queues, or delete that queue: `rq-dlq queue rm {name}`"
    )


def check_not_own(family: str, entry: Entry) -> None:
    """Check that an entry for one queue does not give that queue's name to what fails in it.

    Raises:
        PolicyError: it does.
    """
    named = any(entry.part(part).get("name") == family for part in ("dead_letter", "expiry"))
    if named or family in _aliases_of(entry):
        message = f"{family!r} cannot be its own dead-letter or expiry queue: choose another name"
        raise PolicyError(message)


def _aliases_of(entry: Entry) -> list[str]:
    return str(entry.fields().get("dead_letter_aliases") or "").split()


def declares(settings: QueueSettings, name: str) -> bool:
    """Whether the program itself declared the name."""
    if name in (settings.dead_letter_aliases or "").split():
        return _declares_alias(settings)
    parts = (settings.dead_name, "dead_letter"), (settings.expired_name, "expiry")
    fields = {
        f"{part}.{field}" for other, part in parts for field in ("name", "prefix", "suffix") if other == name
    }
    return any(source.source == DECLARED and source.field in fields for source in settings.sources)


def check_names(stored: PolicyMap, pattern: Pattern, entry: Entry, families: Sequence[str]) -> list[str]:
    """Check the names that an entry gives.

    Returns:
        Those of existing queues, which have to give way.

    Raises:
        PolicyError: a name for dead letters or expired messages cannot be given.
    """
    check_not_own(pattern.text, entry)
    changed = replace(stored, entries={**stored.entries, pattern.text: entry})
    parts = entry.part("dead_letter"), entry.part("expiry")
    given = {str(name) for part in parts if (name := part.get("name"))}
    given |= {*_aliases_of(entry)}
    affixed = any(affix in part for part in parts for affix in ("prefix", "suffix"))
    for family in filter(pattern.matches, families) if affixed else ():
        try:
            settings = changed.settings(family)
        except UpgradeRequired:  # reported when the entry is applied
            continue
        given |= {settings.dead_name, settings.expired_name} - {*usual_names(family, stored.naming)}
    taken = given.intersection(families)
    for problem in [_unusable(name, stored.naming) for name in sorted(given - taken)]:
        if problem:
            raise PolicyError(problem)
    return sorted(taken)


def gives_way(keys: QueueKeys) -> Steps[bool]:
    """Whether a policy that wants the name of a queue for dead letters may have it: the queue is empty.

    One that has schedules, or settings that a program declares, stays, since it will be used again. So does
    one that is paused, or remembers acks (`dedup_window`), which would be lost.
    """
    (declared, _), *within = yield Batch([calls.configured(keys), *queue_calls.within(keys)])
    return not declared and not any(within)


def give_way(keys: QueueKeys) -> Steps[bool]:
    """Delete a queue if it gives way; whether the name is free now."""
    if not (yield from gives_way(keys)):
        return False
    left = yield from once(Senders(), keys, queue_calls.delete, force=False)
    return not isinstance(left, queue_calls.Left) and (yield from unlist(keys))
