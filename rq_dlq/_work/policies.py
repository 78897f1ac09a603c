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
from rq_dlq._work.queue import only_live
from rq_dlq._work.steps import Batch, Steps
from rq_dlq._work.views import find, is_given
from rq_dlq.errors import InvalidName, PolicyError
from rq_dlq.policy import Entry, Pattern, PolicyMap, QueueSettings
from rq_dlq.policy.policy_map import DECLARED, VERSION

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rq_dlq._names import Naming
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
    yield from find(queue)
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
    Only who listed a name takes it from the list again, and looks once more: another may have relied on it.
    """
    keys = queue.keys
    while True:
        new, noted = yield Batch([_calls.register(keys), _calls.is_alias(keys.namespace, keys.home)])
        if not noted:
            return
        if not (yield from is_given(keys, keys.home)):
            yield _calls.drop_aliases(keys.namespace, [keys.home])
            return
        if new:
            yield _calls.unregister(keys)
        if not new or (yield from is_given(keys, keys.home)):
            queue.view = True
            return


class _Map:
    """The map as a client read it last; parsed again only when its version is another one."""

    def __init__(self, naming: Naming) -> None:
        self.fields: dict[bytes, bytes] | None = None
        self.parsed = PolicyMap({}, naming)

    @property
    def version(self) -> bytes | None:
        """As it stands in Redis."""
        return (self.fields or {}).get(VERSION)

    def read(self, keys: QueueKeys) -> Steps[tuple[bytes, bytes]]:
        """Read it, and what `configured` reads; unchanged later on, that is no newer than this map."""
        if self.fields is not None:
            settings, version = yield Batch([_calls.configured(keys), _calls.policy_version(keys.namespace)])
            if version == self.version:
                return settings  # type: ignore[no-any-return]
        settings, fields = yield Batch([_calls.configured(keys), _calls.policies(keys.namespace)])
        self.fields, self.parsed = fields, PolicyMap.read(fields, self.parsed.naming)
        return settings  # type: ignore[no-any-return]


def apply_policies(keys: QueueKeys, naming: Naming, declared: Entry | None = None) -> Steps[Entry | None]:
    """Write what holds for a queue to its settings; reads as what was declared for it before.

    Args:
        declared: a new declaration; None: the one that stands.

    Raises:
        PolicyError: a new declaration gives dead letters the name of another queue.
    """
    policy_map = _Map(naming)
    try:
        return (yield from _apply(keys, policy_map, None if declared is None else declared.encode()))
    except _TakenMeanwhile as error:
        yield from _apply(keys, policy_map, error.before, told=False)
        raise PolicyError(*error.args) from None


class _TakenMeanwhile(Exception):  # noqa: N818 - no error: the declaration is undone
    """A name that a program gives became a queue's own when it was written.

    Attributes:
        before: the declaration that stood.
    """

    def __init__(self, message: str, before: bytes) -> None:
        super().__init__(message)
        self.before = before


def _apply(
    keys: QueueKeys, policy_map: _Map, declared: bytes | None = None, *, told: bool = True
) -> Steps[Entry | None]:
    """As `apply_policies`.

    Args:
        declared: as it is written; empty: none any more, None: the one that stands.
        told: who declares something is told where that gives a name that is taken.
    """
    naming, told, replaced = policy_map.parsed.naming, told and bool(declared), None
    while True:
        before, version_before = yield from policy_map.read(keys)
        text = before if declared is None else declared
        replaced = before if replaced is None else replaced
        entry = decoded(text)
        if not (policy_map.fields or version_before or entry or text != before):
            return None  # nobody ever said anything
        settings = policy_map.parsed.settings(keys.home, entry)
        wire, usual = settings.wire(), _usual_names(keys.home, naming)
        names = yield from _free_names(settings, keys, naming, told=told)
        given = [name for name in names if name not in usual]
        if names != usual:
            wire["names"] = "\t".join(names)
        call = _calls.configure(
            keys,
            wire,
            version=policy_map.parsed.version,
            version_before=version_before,
            declared_before=before,
            declared=text,
        )
        written, version, taken = yield from _write(keys, call, given)
        if not written:
            replaced = None
        elif taken and told and _declares(settings, taken):
            raise _TakenMeanwhile(_own(taken), replaced)
        elif version == policy_map.version and not taken:
            return entry if replaced == text else decoded(replaced)


def _write(
    keys: QueueKeys, configure: _calls.Call[bool], given: Sequence[str]
) -> Steps[tuple[bool, bytes | None, str | None]]:
    """Note the names, write, then look: whether it was written, the map's version, a name that is taken."""
    namespace = keys.namespace
    noting = [_calls.add_aliases(namespace, given)] if given else []
    looks = [_calls.is_registered(namespace, name) for name in given]
    replies = yield Batch([*noting, configure, _calls.policy_version(namespace), *looks])
    written, version, *registered = replies[len(noting) :]
    taken = [name for name, used in zip(given, registered, strict=True) if used]
    return written, version, taken[0] if taken else None


def decoded(text: bytes) -> Entry | None:
    """A declaration as it stands in Redis; one that does not decode must not stop the queue."""
    try:
        return Entry.decode(text) if text else None
    except PolicyError as error:
        logger.warning("a declared policy is passed over: %s", error)
        return None


def _usual_names(home: str, naming: Naming) -> tuple[str, str]:
    return naming.dead.of(home), naming.expired.of(home)


def _free_names(
    settings: QueueSettings, keys: QueueKeys, naming: Naming, *, told: bool
) -> Steps[tuple[str, str]]:
    """The names of a queue's dead-letter and expiry queues.

    One that is a queue's own already is not given: that queue must not be hidden.

    Args:
        told: the program has declared something, so it is told where that is why.
    """
    names: list[str] = []
    asked = settings.dead_name, settings.expired_name
    for name, usual in zip(asked, _usual_names(keys.home, naming), strict=True):
        problem = None if name == usual else _unusable(name, naming)
        if name != usual and not problem and (yield _calls.is_registered(keys.namespace, name)):
            problem = _own(name)
        if problem and told and _declares(settings, name):
            raise PolicyError(problem)
        if problem:
            logger.warning("%s: its own name stands instead, since %s", usual, problem)
        names.append(usual if problem else name)
    return names[0], names[1]


def _unusable(name: str, naming: Naming) -> str | None:
    """Why nothing can be called so; one that means what died in a queue can be shared with that one."""
    try:
        naming.resolve(name)
    except InvalidName as error:
        return str(error)
    return None


def _own(name: str) -> str:
    return f"{name!r} is a queue of its own: choose another name for what dies or expires in others"


def _declares(settings: QueueSettings, name: str) -> bool:
    """Whether the program itself gave the name."""
    parts = (settings.dead_name, "dead_letter"), (settings.expired_name, "expiry")
    fields = {
        f"{part}.{field}" for other, part in parts for field in ("name", "prefix", "suffix") if other == name
    }
    return any(source.source == DECLARED and source.field in fields for source in settings.sources)


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
    policy_map = _Map(naming)
    for home in matched:
        yield from _apply(QueueKeys(namespace, home), policy_map)
    return len(matched)


def undeclare(keys: QueueKeys, naming: Naming) -> Steps[bool]:
    """Withdraw what programs declared for a queue; whether there was anything."""
    before, _ = yield _calls.configured(keys)
    if before:
        yield from _apply(keys, _Map(naming), b"")
    return bool(before)


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
    yield from open_queue(queue) if paused else find(queue)  # a full server lets no name be noted
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
    """What holds for a queue, and where each field comes from; of names, those that its messages have."""
    (declared, applied), fields, names = yield Batch(
        [_calls.configured(keys), _calls.policies(keys.namespace), _calls.given_names(keys)]
    )
    settings = PolicyMap.read(fields, naming).settings(keys.home, decoded(declared))
    if not applied:
        return settings
    held = names if any(names) else _usual_names(keys.home, naming)
    return replace(settings, **dict(zip(("dead_name", "expired_name"), held, strict=False)))
