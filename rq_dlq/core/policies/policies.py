"""The map of policies: what operators set and programs declare becomes the settings of queues.

The map (`rq:policies`) has entries for patterns; a queue's settings have the declarations of its own program.
A client merges both and writes the result to the queue's settings, where the scripts read it, so a change
takes effect everywhere with the next call. The result has the map's version, which shows a client that the
map has changed in the meantime.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed.renumber import renumber
from rq_dlq.core.policies import calls
from rq_dlq.core.policies.given_names import check_names, given_names, usual_names
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.registry import LETTERS
from rq_dlq.core.queues.who import act_by, note, note_beside
from rq_dlq.core.steps.driving import together
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import Pipeline, Steps, chunks
from rq_dlq.errors import BrokerRefused, PolicyError, UpgradeRequired
from rq_dlq.policy import Entry, Pattern, PolicyMap, QueueSettings
from rq_dlq.policy.entry import marked_anew
from rq_dlq.policy.policy_map import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.core.steps.call import Call
    from rq_dlq.values.names import Naming

logger = logging.getLogger("rq_dlq")
TOGETHER = 25  # queues whose settings are written in one round trip: about 1 ms of Redis


class _Map:
    """The map as a client read it last; parsed again only when its version is another one."""

    def __init__(self, naming: Naming) -> None:
        self.fields: dict[bytes, bytes] | None = None
        self.parsed = PolicyMap({}, naming)

    @property
    def version(self) -> bytes | None:
        """As in Redis."""
        return (self.fields or {}).get(VERSION)

    def read(self, keys: QueueKeys) -> Steps[tuple[bytes, bytes]]:
        """Read the map if it has changed, and the fields of `configured`, which are no newer than the map."""
        if self.fields is not None:
            settings, version = yield Pipeline([calls.configured(keys), calls.policy_version(keys.namespace)])
            if version == self.version:
                return settings  # type: ignore[no-any-return]
        settings, fields = yield Pipeline([calls.configured(keys), calls.policies(keys.namespace)])
        if fields != self.fields:
            self.fields, self.parsed = fields, PolicyMap.read(fields, self.parsed.naming)
        return settings  # type: ignore[no-any-return]


def apply_policies(keys: QueueKeys, naming: Naming, declared: Entry | None = None) -> Steps[Entry | None]:
    """Write the settings that apply to a queue.

    Args:
        declared: a new declaration; None: keep the one in Redis.

    Returns:
        The declaration before.

    Raises:
        PolicyError: a new declaration gives dead letters a name that they cannot have.
    """
    return (yield from _apply(keys, _Map(naming), None if declared is None else declared.encode()))


def _apply(keys: QueueKeys, policy_map: _Map, declared: bytes | None = None) -> Steps[Entry | None]:
    """As `apply_policies`.

    Args:
        declared: as it is written; empty: remove it, None: keep it.
    """
    naming, replaced = policy_map.parsed.naming, None
    before, version_before = yield from _read_marked(keys, policy_map)
    while True:
        parsed, read = policy_map.parsed, policy_map.version  # another queue may read it again
        text = marked_anew(before) if declared is None else declared
        replaced = before if replaced is None else replaced
        entry = decoded(text)
        if not (policy_map.fields or version_before or entry or text != before):
            return None  # there has never been an entry or a declaration
        settings = parsed.settings(keys.family, entry)
        wire = settings.wire()
        given = given_names(settings, keys.family, naming, strict=bool(declared))
        unusual = given.unusual(keys.family, naming)
        if unusual:
            wire["names"] = given.written()
        call = calls.configure(
            keys,
            wire,
            version=parsed.version,
            version_before=version_before,
            declared_before=before,
            declared=text,
        )
        written, version = yield from _write(keys, call, unusual)
        if not written:
            replaced = None
        elif version == read:
            return entry if replaced == text else decoded(replaced)
        before, version_before = yield from policy_map.read(keys)


def _read_marked(keys: QueueKeys, policy_map: _Map) -> Steps[tuple[bytes, bytes]]:
    """Read the map; entries that an earlier version wrote get the marks of this one, if the user may."""
    settings = yield from policy_map.read(keys)
    entries = {pattern: text for pattern, text in (policy_map.fields or {}).items() if pattern != VERSION}
    old = {pattern: anew for pattern, text in entries.items() if (anew := marked_anew(text)) != text}
    for pattern, anew in old.items():
        with suppress(BrokerRefused):
            yield calls.set_policy(keys.namespace, pattern.decode(), anew)
    return (yield from policy_map.read(keys)) if old else settings


def _write(keys: QueueKeys, configure: Call[Word], given: Sequence[str]) -> Steps[tuple[Word, bytes | None]]:
    """Note the given names, write the settings, and have queues of such a name opened again.

    Returns:
        Whether the settings were written, and the map's version.

    Raises:
        BrokerRefused: see `renumber`.
    """
    namespace = keys.namespace
    noting = [queue_calls.add_aliases(namespace, given)] if given else []
    others = [replace(keys, family=name) for name in given]
    looks = [queue_calls.opening(other) for other in others]
    replies = yield Pipeline([*noting, configure, calls.policy_version(namespace), *looks])
    written, version, *openings = replies[len(noting) :]
    if written is Word.OLD_LANES:
        yield from renumber(keys)
        return written, version
    for other, opening in zip(others, openings, strict=True):
        if opening and LETTERS not in opening:
            yield queue_calls.close(other)
            logger.warning("%s is a queue, whose consumers also get what fails elsewhere now", other.family)
    return written, version


def decoded(text: bytes) -> Entry | None:
    """A declaration in Redis; None also if it does not decode, which must not stop the queue."""
    try:
        return Entry.decode(text) if text else None
    except PolicyError as error:
        logger.warning("a declared policy is ignored: %s", error)
        return None


def set_policy(
    namespace: str,
    naming: Naming,
    pattern: str,
    entry: Entry | Callable[[Entry | None], Entry] | None,
    *,
    progress: Callable[[int, int], object] | None = None,
    act: Callable[[str], str] | None = None,
) -> Steps[int]:
    """Set an entry of the map, or remove it (None), and apply it to every queue that it matches.

    Args:
        entry: also a function that makes it from the earlier one (None: there is none). It is called again if
            another client has changed that in the meantime, so both changes count.
        progress: called with how many queues are done, and of how many.
        act: makes the entry for the audit of the Redis user (`core/queues/who.py`); None: no note.

    Returns:
        How many queues it matches. If it is interrupted, only some of them have it, and a note on the error
        states how many.

    Raises:
        PolicyError: the pattern or the entry is invalid, or gives dead letters a name that they cannot have.
    """
    parsed = Pattern.parse(pattern)
    families = yield from _write_entry(namespace, naming, parsed, entry, act)
    matched = [QueueKeys(namespace, family) for family in filter(parsed.matches, families)]
    policy_map, done, applied = _Map(naming), 0, 0
    try:
        for part in (matched[:1], *chunks(matched[1:], TOGETHER)):  # the first reads the map
            applied += sum((yield from together([_apply_if_known(keys, policy_map) for keys in part])))
            done += len(part)
            if progress is not None:
                progress(done, len(matched))
    except BaseException as error:
        error.add_note(f"{done:,} of {len(matched):,} queues have the change: it is safe to repeat the call")
        raise
    return applied


def _apply_if_known(keys: QueueKeys, policy_map: _Map) -> Steps[bool]:
    """Apply the map to a queue; whether this version can read all parts that apply."""
    try:
        yield from _apply(keys, policy_map)
    except UpgradeRequired as error:
        logger.warning("%s stays as it is: %s", keys.family, error)
        return False
    return True


def _write_entry(
    namespace: str,
    naming: Naming,
    pattern: Pattern,
    entry: Entry | Callable[[Entry | None], Entry] | None,
    act: Callable[[str], str] | None,
) -> Steps[list[str]]:
    """Write an entry into the map; returns the names of the queues that there are after that."""
    name = pattern.text.encode()
    reads = Pipeline([queue_calls.registered(namespace), calls.policies(namespace), queue_calls.whoami()])
    while True:
        families, fields, user = yield reads
        noted = "" if act is None else act(user)
        before = fields.get(name, b"")
        new = entry if entry is None or isinstance(entry, Entry) else entry(_earlier(pattern, before))
        if new is not None:
            check_names(PolicyMap.read(fields, naming), pattern, new, families)
        text = b"" if new is None else new.encode()
        seen = None if new is entry else before
        replaced = (yield calls.set_policy(namespace, pattern.text, text, seen)) or b""
        if seen is None or replaced in {seen, text}:
            break
    names = queue_calls.registered(namespace)
    found = yield from note_beside(names, namespace, noted if before != text else "")
    return (yield names) if found is None else found


def _earlier(pattern: Pattern, text: bytes) -> Entry | None:
    """The entry before the change.

    Raises:
        PolicyError: it cannot be read.
    """
    try:
        return Entry.decode(text) if text else None
    except PolicyError as error:
        message = (
            f"the entry of {pattern.text!r} cannot be read, so it can only be replaced or removed: {error}"
        )
        raise PolicyError(message) from None


def undeclare(keys: QueueKeys, naming: Naming, by: str | None = None) -> Steps[bool]:
    """Remove the declarations of programs for a queue; returns whether it had any.

    Args:
        by: the operator's name; None: the user and host of this process.

    Raises:
        InvalidInput: this is not a name.
    """
    (before, _), user = yield Pipeline([calls.configured(keys), queue_calls.whoami()])
    act = act_by(user, "undeclared", by)
    if before:
        yield from _apply(keys, _Map(naming), b"")
        yield from note(keys.namespace, act, queue=keys.family)
    return bool(before)


def read_policies(namespace: str, naming: Naming) -> Steps[PolicyMap]:
    """The map of policies."""
    return PolicyMap.read((yield calls.policies(namespace)), naming)


def explain_policy(keys: QueueKeys, naming: Naming, declares: Entry | None = None) -> Steps[QueueSettings]:
    """The settings that apply to a queue, and the origin of each field, with the names that are in use.

    Args:
        declares: this program's declarations that are not written yet; None: see the queue's settings.
    """
    (declared, applied), fields, names = yield Pipeline(
        [calls.configured(keys), calls.policies(keys.namespace), queue_calls.given_names(keys)]
    )
    settings = PolicyMap.read(fields, naming).settings(
        keys.family, decoded(declared if declares is None else declares.encode())
    )
    if not applied:
        return settings
    held = names if any(names) else usual_names(keys.family, naming)
    return replace(settings, **dict(zip(("dead_name", "expired_name"), held, strict=False)))
