"""The map of policies: from what operators and programs say to what holds for a queue.

The map (`rq:policies`) says what holds for patterns, a queue's settings what its own program declared. A
client merges both and writes the outcome to the queue's settings, where the scripts read it; so a change
takes effect with the next judgement, everywhere. A map that changes meanwhile is seen: each outcome carries
the map's version.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq import _calls
from rq_dlq._keys import QueueKeys
from rq_dlq._names import Address, Naming
from rq_dlq._work.queue import only_live
from rq_dlq._work.steps import WINDOW, Batch, Steps
from rq_dlq.errors import InvalidName, PolicyError
from rq_dlq.policy import Entry, Pattern, PolicyMap, QueueSettings
from rq_dlq.policy.policy_map import DECLARED, VERSION

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rq_dlq._work.queue import Queue

T = TypeVar("T")
logger = logging.getLogger("rq_dlq")


def open_queue(queue: Queue[Any]) -> Steps[None]:
    """Before the first send or claim: note the queue's name, and work out what holds for it.

    Raises:
        PolicyError: the program gives its dead letters the name of another queue.
    """
    if queue.opened:
        return
    yield from _find(queue)
    if not queue.view:
        yield from _register(queue)
    if queue.view and queue.declared is not None:
        message = f"{queue.name!r} has no policy: it shows what failed in other queues. Set it on those"
        raise PolicyError(message)
    if not queue.view:
        replaced = yield from apply_policies(queue.keys, queue.naming, queue.declared)
        if replaced is not None and queue.declared is not None and replaced != queue.declared:
            logger.warning("%s: this program declares another policy than the last one did", queue.name)
    queue.opened = True


def _register(queue: Queue[Any]) -> Steps[None]:
    """Note the queue's name before the map is read, so that who changes it now finds the queue listed.

    Who gives the name to dead letters notes that first and looks at the list then: so one sees the other.
    """
    keys = queue.keys
    new, given = yield Batch([_calls.register(keys), _calls.is_alias(keys.namespace, keys.home)])
    if new and given:
        yield _calls.unregister(keys)
        queue.view = True


def _find(queue: Queue[Any]) -> Steps[None]:
    """Ask once whether the name is one that policies gave to what died or expired in other queues."""
    if not queue.found:
        queue.view = bool((yield _calls.is_alias(queue.keys.namespace, queue.name)))
    queue.found = True


def apply_policies(keys: QueueKeys, naming: Naming, declared: Entry | None = None) -> Steps[Entry | None]:
    """Write what holds for a queue to its settings; reads as what was declared for it before.

    Args:
        declared: a new declaration; None: the one that stands.

    Raises:
        PolicyError: a new declaration gives dead letters the name of another queue.
    """
    while True:
        # The settings are read first: unchanged at the end, they are no newer than this map.
        (before, version_before), fields = yield Batch(
            [_calls.configured(keys), _calls.policies(keys.namespace)]
        )
        policy_map, stands = PolicyMap.read(fields, naming), decoded(before)
        entry = declared or stands
        if not (fields or version_before or entry):
            return None  # nobody ever said anything
        settings = policy_map.settings(keys.home, entry)
        wire = settings.wire()
        names = yield from _give_names(settings, keys, naming, new=declared is not None)
        if names != _usual_names(keys.home, naming):
            wire["names"] = "\t".join(names)
        call = _calls.configure(
            keys,
            wire,
            version=policy_map.version,
            version_before=version_before,
            declared_before=before,
            declared=before if declared is None else declared.encode(),
        )
        written, version = yield Batch([call, _calls.policy_version(keys.namespace)])
        if written and version == fields.get(VERSION):
            return stands


def decoded(text: bytes) -> Entry | None:
    """A declaration as it stands in Redis; one that does not decode must not stop the queue."""
    try:
        return Entry.decode(text) if text else None
    except PolicyError as error:
        logger.warning("a declared policy is passed over: %s", error)
        return None


def _usual_names(home: str, naming: Naming) -> tuple[str, str]:
    return naming.dead.of(home), naming.expired.of(home)


def _give_names(
    settings: QueueSettings, keys: QueueKeys, naming: Naming, *, new: bool
) -> Steps[tuple[str, str]]:
    """The names of a queue's dead-letter and expiry queues, noted so that they are found.

    One that is a queue's own already is not given: that queue must not be hidden.

    Args:
        new: the program has declared something, so it is told where that is why.
    """
    names: list[str] = []
    asked = (settings.dead_name, "dead_letter"), (settings.expired_name, "expiry")
    for (name, part), usual in zip(asked, _usual_names(keys.home, naming), strict=True):
        problem = None if name == usual else (yield from _note_name(keys.namespace, name, naming))
        if problem and new and _declared(settings, part):
            raise PolicyError(problem)
        if problem:
            logger.warning("%s: its own name stands instead, since %s", usual, problem)
        names.append(usual if problem else name)
    return names[0], names[1]


def _note_name(namespace: str, name: str, naming: Naming) -> Steps[str | None]:
    """Note a name that is given to dead letters; why it cannot be, as a sentence."""
    if unusable := _unusable(name, naming):
        return unusable
    _, taken = yield Batch([_calls.add_aliases(namespace, [name]), _calls.is_registered(namespace, name)])
    if not taken:
        return None
    yield _calls.drop_aliases(namespace, [name])
    return _own(name)


def _unusable(name: str, naming: Naming) -> str | None:
    """Why nothing can be called so; one that means what died in a queue can be shared with that one."""
    try:
        naming.resolve(name)
    except InvalidName as error:
        return str(error)
    return None


def _own(name: str) -> str:
    return f"{name!r} is a queue of its own: choose another name for what dies or expires in others"


def _declared(settings: QueueSettings, part: str) -> bool:
    """Whether the program itself gave the name."""
    fields = {f"{part}.{field}" for field in ("name", "prefix", "suffix")}
    return any(source.source == DECLARED and source.field in fields for source in settings.sources)


def members(queue: Queue[T]) -> Steps[list[Queue[T]]]:
    """The queues behind a name: itself, or whose dead letters and expired messages a view shows just now."""
    yield from _find(queue)
    if not queue.view:
        return [queue]
    namespace, home = queue.keys.namespace, queue.keys.home
    homes: list[str] = yield _calls.registered(namespace)
    found: list[Queue[T]] = []
    if queue.name != home:  # "DLQ.all" means what died in "all", too
        found.append(queue.member(Address(home, queue.part)))
    wanted = ("dead", "expired") if queue.name != home or queue.part == "live" else (queue.part,)
    for start in range(0, len(homes), WINDOW * 25):
        part = homes[start : start + WINDOW * 25]
        given = yield Batch([_calls.given_names(QueueKeys(namespace, other)) for other in part])
        for other, names in zip(part, given, strict=True):
            found += (
                queue.member(Address(other, where))
                for where, name in zip(("dead", "expired"), names, strict=False)
                if name == queue.name and where in wanted
            )
    return found


def set_policy(namespace: str, naming: Naming, pattern: str, entry: Entry | None) -> Steps[int]:
    """Set an entry of the map, or remove it, and apply it to every queue that it matches; how many those are.

    Where it is cut off, some of the queues have it; said again, it goes on.

    Raises:
        PolicyError: that is no pattern or no entry, or a dead-letter queue is to be called as a queue is.
    """
    parsed = Pattern.parse(pattern)
    if entry is not None:
        homes, fields = yield Batch([_calls.registered(namespace), _calls.policies(namespace)])
        check_names(PolicyMap.read(fields, naming), parsed, entry, homes)
    yield _calls.set_policy(namespace, parsed.text, b"" if entry is None else entry.encode())
    homes = yield _calls.registered(namespace)
    matched = [home for home in homes if parsed.matches(home)]
    for home in matched:
        yield from apply_policies(QueueKeys(namespace, home), naming)
    return len(matched)


def check_names(stored: PolicyMap, pattern: Pattern, entry: Entry, homes: Sequence[str]) -> None:
    """Refuse an entry that gives the dead letters of a queue the name of another one."""
    changed = replace(stored, entries={**stored.entries, pattern.text: entry})
    known = set(homes)
    for part in (entry.dead_letter, entry.expiry):
        if name := part.get("name"):
            _check_name(str(name), stored.naming, known)
    if not any(affix in part for part in (entry.dead_letter, entry.expiry) for affix in ("prefix", "suffix")):
        return
    for home in filter(pattern.matches, homes):
        settings = changed.settings(home)
        for name in {settings.dead_name, settings.expired_name} - {*_usual_names(home, stored.naming)}:
            _check_name(name, stored.naming, known)


def _check_name(name: str, naming: Naming, homes: Container[str]) -> None:
    problem = _own(name) if name in homes else _unusable(name, naming)
    if problem:
        raise PolicyError(problem)


def set_paused(queue: Queue[Any], *, paused: bool) -> Steps[bool]:
    """Hand out nothing, or go on; whether that changed anything."""
    only_live(queue, "pause")
    yield from open_queue(queue) if paused else _find(queue)  # a full server lets no name be noted
    only_live(queue, "pause")
    return (yield _calls.pause(queue.keys, paused=paused))  # type: ignore[no-any-return]


def reset(queue: Queue[Any]) -> Steps[int]:
    """Begin the totals anew; how many messages are in the queue."""
    only_live(queue, "reset")
    yield from open_queue(queue)
    only_live(queue, "reset")
    return (yield _calls.reset(queue.keys))  # type: ignore[no-any-return]


def read_policies(namespace: str, naming: Naming) -> Steps[PolicyMap]:
    """The map as it stands."""
    return PolicyMap.read((yield _calls.policies(namespace)), naming)


def explain_policy(keys: QueueKeys, naming: Naming) -> Steps[QueueSettings]:
    """What holds for a queue, and where each field comes from."""
    (declared, _), fields = yield Batch([_calls.configured(keys), _calls.policies(keys.namespace)])
    return PolicyMap.read(fields, naming).settings(keys.home, decoded(declared))
