"""What operators and programs say of queues and of waiting messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rq_dlq import _keys
from rq_dlq._calls.call import Argument, Call, Command, Part, Place, read_hash, read_ids, read_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.failure import Cause

EVERYTHING = "+inf"
_SETTINGS = ("redelivery", "dead_letter", "expiry", "max_in_flight", "outcomes", "names")


def redrive(
    keys: QueueKeys,
    *,
    part: Part,
    by: str,
    ids: Sequence[str] = (),
    limit: int = 0,
    before: int | str = EVERYTHING,
) -> Call[list[str]]:
    """Bring back the dead: these, or the oldest. Reads as the ids."""
    args: dict[str, Argument] = {"part": part, "limit": limit, "before": before, "by": by}
    return Call("redrive", keys, args, ids, read_ids)


def purge(
    keys: QueueKeys,
    *,
    place: Place,
    ids: Sequence[str] = (),
    limit: int = 0,
    before: int | str = EVERYTHING,
) -> Call[list[str]]:
    """Remove waiting messages: these, or the first. Reads as the ids."""
    args: dict[str, Argument] = {"place": place, "limit": limit, "before": before}
    return Call("purge", keys, args, ids, read_ids)


def expire_now(keys: QueueKeys, *, place: Place, ids: Sequence[str]) -> Call[list[str]]:
    """Expire these, whatever their time to live. Reads as the ids."""
    return Call("expire_now", keys, {"place": place}, ids, read_ids)


def dead_letter(
    keys: QueueKeys, *, place: Place, ids: Sequence[str], by: str, cause: Cause
) -> Call[list[str]]:
    """Send these to the dead-letter queue. Reads as the ids."""
    args: dict[str, Argument] = {"place": place, "by": by, "reason": cause.cells()}
    return Call("dead_letter", keys, args, ids, read_ids)


def deliver_now(keys: QueueKeys, *, ids: Sequence[str]) -> Call[list[str]]:
    """Make these scheduled messages ready. Reads as the ids."""
    return Call("deliver_now", keys, {}, ids, read_ids)


def prioritise(keys: QueueKeys, *, place: Place, ids: Sequence[str], priority: int) -> Call[list[str]]:
    """Change the priority of these. Reads as the ids."""
    return Call("prioritise", keys, {"place": place, "priority": priority}, ids, read_ids)


def transfer(
    keys: QueueKeys,
    target: QueueKeys,
    *,
    place: Place,
    ids: Sequence[str],
    keep: bool,
    by: str,
    cause: Cause,
) -> Call[list[str]]:
    """Move these to another queue, or copy them. Reads as the ids, without those that it knew already."""
    args: dict[str, Argument] = {"place": place, "keep": int(keep), "by": by, "reason": cause.cells()}
    return Call("transfer", _keys.KeysOfTwo(keys, target), args, ids, read_ids)


def pause(keys: QueueKeys, *, paused: bool) -> Call[bool]:
    """Stop handing out messages, or go on. Reads as whether that changed anything."""
    return Call("pause", keys, {"paused": int(paused)}, (), lambda reply, _: bool(reply))


def reset(keys: QueueKeys) -> Call[int]:
    """Begin the totals anew. Reads as how many messages are in the queue."""
    return Call("reset", keys, {}, (), read_number)


def register(keys: QueueKeys) -> Command[int]:
    """Note the name of a queue, so that it is listed."""
    return Command((b"SADD", _keys.queues(keys.namespace), keys.home), read_number)


def unregister(keys: QueueKeys) -> Command[int]:
    """The name is no queue's: it is listed no more."""
    return Command((b"SREM", _keys.queues(keys.namespace), keys.home), read_number)


def is_registered(namespace: str, name: str) -> Command[int]:
    """Whether a queue of this name was ever used."""
    return Command((b"SISMEMBER", _keys.queues(namespace), name), read_number)


def was_sent_to(keys: QueueKeys) -> Command[int]:
    """Whether anything was ever sent to a queue."""
    return Command((b"EXISTS", keys["messages"], keys["counters"]), read_number)


def encode_policy(redelivery: Mapping[str, object]) -> bytes:
    """A queue's policy as it stands in Redis."""
    return msgspec.json.encode({"redelivery": redelivery})


def configure(
    keys: QueueKeys,
    settings: Mapping[str, str],
    *,
    version: int,
    version_before: bytes = b"",
    declared_before: bytes,
    declared: bytes,
) -> Call[bool]:
    """Write what holds for a queue. Reads as False where what `configured` read has changed meanwhile."""
    args: dict[str, Argument] = {
        "version": version,
        "version_before": version_before,
        "declared_before": declared_before,
        "declared": declared,
    }
    args |= {name: settings.get(name, "") for name in _SETTINGS}
    return Call("configure", keys, args, (), lambda reply, _: reply == 1)


def set_policy(namespace: str, pattern: str, entry: bytes) -> Call[bytes | None]:
    """Set an entry of the map of policies; empty: remove it. Reads as the one it replaces."""
    keys = _keys.NamedKeys({"policies": _keys.policies(namespace)})
    args: dict[str, Argument] = {"pattern": pattern, "entry": entry}
    return Call("set_policy", keys, args, (), lambda reply, _: reply[1])


def policies(namespace: str) -> Command[dict[bytes, bytes]]:
    """The map of policies as it stands in Redis."""
    return Command((b"HGETALL", _keys.policies(namespace)), read_hash)


def policy_version(namespace: str) -> Command[bytes | None]:
    """How often the map of policies was changed, as it stands in Redis."""
    return Command((b"HGET", _keys.policies(namespace), b"#version"), lambda reply, _: reply)


def add_aliases(namespace: str, names: Sequence[str]) -> Command[int]:
    """Note names that policies give to the dead letters or the expired messages of queues."""
    return Command((b"SADD", _keys.aliases(namespace), *names), read_number)


def drop_aliases(namespace: str, names: Sequence[str]) -> Command[int]:
    """Forget names that no policy gives any more."""
    return Command((b"SREM", _keys.aliases(namespace), *names), read_number)


def is_alias(namespace: str, name: str) -> Command[int]:
    """Whether a policy ever gave this name; whether one still does, the queues' settings say."""
    return Command((b"SISMEMBER", _keys.aliases(namespace), name), read_number)


def given_names(keys: QueueKeys) -> Command[list[str]]:
    """The names of a queue's dead-letter and expiry queues, where a policy gave them one."""
    parts = (b"HGET", keys["settings"], b"names")
    return Command(parts, lambda reply, _: (reply or b"").decode(errors="replace").split("\t"))


def configured(keys: QueueKeys) -> Command[tuple[bytes, bytes]]:
    """What the queue's own program declared, and the version of the map that counts; empty: none."""
    command = (b"HMGET", keys["settings"], b"declared", b"version")
    return Command(command, lambda reply, _: (reply[0] or b"", reply[1] or b""))
