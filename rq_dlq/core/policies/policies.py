"""The map of policies: what operators set and programs declare becomes the settings of queues.

The map (`rq:policies`) has entries for patterns; a queue's settings have what its own program declared. A
client merges both and writes the result to the queue's settings, where the scripts read it, so a change
takes effect everywhere with the next script. The result has the map's version, which shows a client that the
map has changed meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq.core.policies import calls
from rq_dlq.core.policies.given_names import (
    check_names,
    declares,
    free_aliases,
    free_names,
    give_way,
    usual_names,
    why_taken,
)
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.who import note
from rq_dlq.core.steps.driving import together
from rq_dlq.core.steps.step import Batch, Steps, chunks
from rq_dlq.errors import PolicyError, UpgradeRequired
from rq_dlq.policy import Entry, Pattern, PolicyMap, QueueSettings
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
        """Read the map if it has changed, and what `configured` reads, which is no newer than the map."""
        if self.fields is not None:
            settings, version = yield Batch([calls.configured(keys), calls.policy_version(keys.namespace)])
            if version == self.version:
                return settings  # type: ignore[no-any-return]
        settings, fields = yield Batch([calls.configured(keys), calls.policies(keys.namespace)])
        if fields != self.fields:
            self.fields, self.parsed = fields, PolicyMap.read(fields, self.parsed.naming)
        return settings  # type: ignore[no-any-return]


def apply_policies(keys: QueueKeys, naming: Naming, declared: Entry | None = None) -> Steps[Entry | None]:
    """Write what applies to a queue to its settings.

    Args:
        declared: a new declaration; None: keep the one in Redis.

    Returns:
        The declaration before.

    Raises:
        PolicyError: a new declaration gives dead letters the name of another queue.
    """
    policy_map = _Map(naming)
    try:
        return (yield from _apply(keys, policy_map, None if declared is None else declared.encode()))
    except _TakenMeanwhile as error:
        yield from _apply(keys, policy_map, error.before, strict=False)
        raise PolicyError(*error.args) from None


class _TakenMeanwhile(Exception):  # noqa: N818 - no error: the declaration is undone
    """A queue was registered under a declared name while the declaration was written.

    Attributes:
        before: the declaration before.
    """

    def __init__(self, message: str, before: bytes) -> None:
        super().__init__(message)
        self.before = before


def _apply(
    keys: QueueKeys, policy_map: _Map, declared: bytes | None = None, *, strict: bool = True
) -> Steps[Entry | None]:
    """As `apply_policies`.

    Args:
        declared: as it is written; empty: remove it, None: keep it.
        strict: raise an error if the declaration gives a name that is taken.
    """
    naming, strict, replaced = policy_map.parsed.naming, strict and bool(declared), None
    while True:
        before, version_before = yield from policy_map.read(keys)
        parsed, read = policy_map.parsed, policy_map.version  # another queue may read it again
        text = before if declared is None else declared
        replaced = before if replaced is None else replaced
        entry = decoded(text)
        if not (policy_map.fields or version_before or entry or text != before):
            return None  # there has never been an entry or a declaration
        settings = parsed.settings(keys.family, entry)
        wire, usual = settings.wire(), usual_names(keys.family, naming)
        names = yield from free_names(settings, keys, naming, strict=strict)
        aliases = yield from free_aliases(settings, keys, naming, names, strict=strict)
        given = [*(name for name in names if name not in usual), *aliases]
        if given:
            wire["names"] = "\t".join([*names, *([" ".join(aliases)] if aliases else [])])
        call = calls.configure(
            keys,
            wire,
            version=parsed.version,
            version_before=version_before,
            declared_before=before,
            declared=text,
        )
        written, version, taken = yield from _write(keys, call, given)
        if not written:
            replaced = None
        elif taken and strict and declares(settings, taken):
            raise _TakenMeanwhile(why_taken(taken), replaced)
        elif version == read and not taken:
            return entry if replaced == text else decoded(replaced)


def _write(
    keys: QueueKeys, configure: Call[bool], given: Sequence[str]
) -> Steps[tuple[bool, bytes | None, str | None]]:
    """Record the given names, write the settings, then check.

    Returns:
        Whether they were written, the map's version, and a given name that is a queue's.
    """
    namespace = keys.namespace
    noting = [queue_calls.add_aliases(namespace, given)] if given else []
    others = [replace(keys, family=name) for name in given]
    looks = [look(other) for other in others for look in (queue_calls.opening, queue_calls.was_sent_to)]
    replies = yield Batch([*noting, configure, calls.policy_version(namespace), *looks])
    written, version, *found = replies[len(noting) :]
    taken = [name for name, *used in zip(given, found[::2], found[1::2], strict=True) if any(used)]
    return written, version, taken[0] if taken else None


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
    entry: Entry | None,
    *,
    progress: Callable[[int, int], object] | None = None,
    act: str = "",
) -> Steps[int]:
    """Set an entry of the map, or remove it (None), and apply it to every queue that it matches.

    If it is interrupted, only some of the queues have it, and a note on the error says how many.

    Args:
        progress: called with how many queues are done, and of how many.
        act: for the audit (`core/queues/who.py`); empty: no note.

    Returns:
        How many queues it matches.

    Raises:
        PolicyError: the pattern or the entry is invalid, or gives dead letters the name of a queue that is
            not empty.
    """
    parsed = Pattern.parse(pattern)
    families, fields = list[str](), dict[bytes, bytes]()
    if entry is not None or act:
        families, fields = yield Batch([queue_calls.registered(namespace), calls.policies(namespace)])
    if entry is not None:
        for name in check_names(PolicyMap.read(fields, naming), parsed, entry, families):
            if not (yield from give_way(QueueKeys(namespace, name))):
                raise PolicyError(why_taken(name))
    text = b"" if entry is None else entry.encode()
    yield calls.set_policy(namespace, parsed.text, text)
    if fields.get(parsed.text.encode(), b"") != text:
        yield from note(namespace, act)
    families = yield queue_calls.registered(namespace)
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
    """Apply the map to a queue; whether this version knows all of what applies."""
    try:
        yield from _apply(keys, policy_map)
    except UpgradeRequired as error:
        logger.warning("%s stays as it is: %s", keys.family, error)
        return False
    return True


def undeclare(keys: QueueKeys, naming: Naming, act: str = "") -> Steps[bool]:
    """Remove what programs declared for a queue; returns whether there was anything."""
    before, _ = yield calls.configured(keys)
    if before:
        yield from _apply(keys, _Map(naming), b"")
        yield from note(keys.namespace, act, queue=keys.family)
    return bool(before)


def read_policies(namespace: str, naming: Naming) -> Steps[PolicyMap]:
    """The map of policies."""
    return PolicyMap.read((yield calls.policies(namespace)), naming)


def explain_policy(keys: QueueKeys, naming: Naming, declares: Entry | None = None) -> Steps[QueueSettings]:
    """What applies to a queue, and where each field comes from, with the names that are in use.

    Args:
        declares: what this program declares, and has not written yet; None: see the queue's settings.
    """
    (declared, applied), fields, names = yield Batch(
        [calls.configured(keys), calls.policies(keys.namespace), queue_calls.given_names(keys)]
    )
    settings = PolicyMap.read(fields, naming).settings(
        keys.family, decoded(declared if declares is None else declares.encode())
    )
    if not applied:
        return settings
    held = names if any(names) else usual_names(keys.family, naming)
    return replace(settings, **dict(zip(("dead_name", "expired_name"), held, strict=False)))
