"""Managing queues, policies and waiting messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rq_dlq import _keys
from rq_dlq._calls.call import Argument, Call, Command, Place, Sender, read_hash
from rq_dlq._calls.scans import END, START, Position, between
from rq_dlq.policy.fields import WRITTEN

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.failure import Cause


class Left(NamedTuple):
    """Why a queue was not deleted: how many messages are in it, and how many lists that a job committed."""

    ready: int
    scheduled: int
    leased: int
    dead: int
    expired: int
    committed: int

    def __str__(self) -> str:
        counts = self._asdict() | {"committed lists of jobs": self.committed}
        del counts["committed"]
        return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


class Changed(NamedTuple):
    """How many messages a call on a range changed, and where the range goes on (None: it is over)."""

    number: int
    next: Position | None


def redrive(
    sender: Sender,
    *,
    place: Place,
    by: str,
    ids: Sequence[str] = (),
    limit: int = 0,
    before: int | None = None,
) -> Call[int]:
    """Bring back the dead: these, or the oldest that died by then. Reads as how many."""
    upto = END if before is None else Position(before, END.member)
    args = {"number": sender.number, "part": place, "by": by, **between(START, upto, limit)}
    return Call("redrive", sender.keys, args, ids, _read_count)


def redrive_range(
    sender: Sender, *, place: Place, by: str, after: Position, upto: Position, limit: int
) -> Call[Changed]:
    """Bring back the first of a range of the dead. Reads as how many, and where it goes on."""
    args = {"number": sender.number, "part": place, "by": by, **between(after, upto, limit)}
    return Call("redrive", sender.keys, args, (), _read_changed)


def purge(sender: Sender, *, place: Place, ids: Sequence[str] = (), limit: int = 0) -> Call[int]:
    """Remove waiting messages: these, or the first. Reads as how many."""
    args = {"number": sender.number, "place": place, **between(START, END, limit)}
    return Call("purge", sender.keys, args, ids, _read_count)


def purge_range(
    sender: Sender, *, place: Place, after: Position, upto: Position, limit: int
) -> Call[Changed]:
    """Remove the first of a range of waiting messages. Reads as how many, and where it goes on."""
    args = {"number": sender.number, "place": place, **between(after, upto, limit)}
    return Call("purge", sender.keys, args, (), _read_changed)


def _read_changed(reply: Any) -> Changed:
    number, score, member = reply
    return Changed(int(number), Position(score, member) if score else None)


def _read_count(reply: Any) -> int:
    return _read_changed(reply).number


def expire_now(sender: Sender, *, place: Place, ids: Sequence[str]) -> Call[int]:
    """Expire these, whatever their time to live. Reads as how many."""
    return Call("expire_now", sender.keys, {"number": sender.number, "place": place}, ids, int)


def dead_letter(sender: Sender, *, place: Place, ids: Sequence[str], by: str, cause: Cause) -> Call[int]:
    """Send these to the dead-letter queue. Reads as how many."""
    args: dict[str, Argument] = {"number": sender.number, "place": place, "by": by, "reason": cause.cells()}
    return Call("dead_letter", sender.keys, args, ids, int)


def deliver_now(sender: Sender, *, ids: Sequence[str]) -> Call[int]:
    """Make these scheduled messages ready. Reads as how many."""
    return Call("deliver_now", sender.keys, {"number": sender.number}, ids, int)


def prioritize(sender: Sender, *, place: Place, ids: Sequence[str], priority: int) -> Call[int]:
    """Change the priority of these. Reads as how many."""
    return Call(
        "prioritize", sender.keys, {"number": sender.number, "place": place, "priority": priority}, ids, int
    )


def transfer(
    sender: Sender,
    target: QueueKeys,
    *,
    opening: str = "",
    place: Place,
    ids: Sequence[str],
    keep: bool,
    by: str,
    cause: Cause,
) -> Call[int]:
    """Move these to another queue, or copy them.

    Reads as how many, without those that it knew already; none if it was deleted since its `opening`.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "place": place,
        "keep": int(keep),
        "by": by,
        "reason": cause.cells(),
        "opening": opening,
    }
    both = {**sender.keys.others, **{f"to_{name}": target[name] for name in _keys.NAMES}}
    return Call("transfer", _keys.MoreKeys(sender.keys.queue, both), args, ids, int)


def pause(keys: QueueKeys, *, paused: bool, by: str = "", user: str = "") -> Call[bool]:
    """Stop handing out messages, or go on. Reads as whether that changed anything.

    Args:
        by: who asks, as JSON.
        user: of Redis.
    """
    return Call("pause", keys, {"paused": int(paused), "by": by, "user": user}, (), bool)


def reset(keys: QueueKeys) -> Call[int]:
    """Set the totals to zero. Reads as how many messages are in the queue."""
    return Call("reset", keys, {}, (), int)


def delete(sender: Sender, *, force: bool) -> Call[int | Left]:
    """Remove a queue's keys, also with messages in it if `force`.

    Reads as how many messages were removed; or, if that was refused, what is in the queue.
    """

    def read(reply: Any) -> int | Left:
        return Left(*reply) if isinstance(reply, list) else int(reply)

    return Call("delete", sender.keys, {"number": sender.number, "force": int(force)}, (), read)


def register(keys: QueueKeys) -> Command[int]:
    """Add the name of a queue to the list of queues."""
    return Command((b"SADD", _keys.queues(keys.namespace), keys.family), int)


def unregister(keys: QueueKeys) -> Command[int]:
    """Remove the name from the list of queues."""
    return Command((b"SREM", _keys.queues(keys.namespace), keys.family), int)


def is_registered(namespace: str, name: str) -> Command[int]:
    """Whether a queue of this name was ever used."""
    return Command((b"SISMEMBER", _keys.queues(namespace), name), int)


def open_as(keys: QueueKeys, opening: str) -> Command[int]:
    """Open a queue, unless it is open; the opening is a word that no other opening has."""
    return Command((b"HSETNX", keys["settings"], b"opening", opening), int)


def close(keys: QueueKeys) -> Command[int]:
    """Close a queue: what is sent to it is refused until it is opened again."""
    return Command((b"HDEL", keys["settings"], b"opening"), int)


def opening(keys: QueueKeys) -> Command[str]:
    """The opening of a queue; empty: it is not open."""
    return Command((b"HGET", keys["settings"], b"opening"), lambda reply: (reply or b"").decode())


def was_sent_to(keys: QueueKeys) -> Command[int]:
    """Whether anything was ever sent to a queue."""
    return Command((b"EXISTS", keys["messages"], keys["counters"]), int)


def within(keys: QueueKeys) -> tuple[Command[int], ...]:
    """What a queue would lose if it were deleted.

    How many messages and schedules it has, how many lists of jobs that are not moved yet, how many acks it
    remembers, and whether it is paused.
    """
    hashes = (Command((b"HLEN", keys[name]), int) for name in ("messages", "schedules"))
    indexes = (Command((b"ZCARD", keys[name]), int) for name in ("committed", "acked_ids"))
    return *hashes, *indexes, Command((b"HEXISTS", keys["settings"], b"paused"), int)


def encode_policy(redelivery: Mapping[str, object]) -> bytes:
    """A queue's policy as Redis stores it."""
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
    """Write the settings of a queue; fields that this version does not know stay as they are.

    Reads as False if what `configured` read has changed meanwhile.
    """
    args: dict[str, Argument] = {
        "version": version,
        "version_before": version_before,
        "declared_before": declared_before,
    }
    items: list[Argument] = ["declared", declared]
    for name in WRITTEN:
        items += [name, settings.get(name, "")]
    return Call("configure", keys, args, items, _is_one)


def set_policy(namespace: str, pattern: str, entry: bytes) -> Call[bytes | None]:
    """Set an entry of the map of policies; empty: remove it. Reads as the one it replaces."""
    keys = _keys.NamedKeys({"policies": _keys.policies(namespace)})
    return Call("set_policy", keys, {"pattern": pattern, "entry": entry}, (), _read_replaced)


def policies(namespace: str) -> Command[dict[bytes, bytes]]:
    """The map of policies, as Redis stores it."""
    return Command((b"HGETALL", _keys.policies(namespace)), read_hash)


def policy_version(namespace: str) -> Command[bytes | None]:
    """How often the map of policies was changed, as text."""
    return Command((b"HGET", _keys.policies(namespace), b"#version"))


def add_aliases(namespace: str, names: Sequence[str]) -> Command[int]:
    """Record names that policies give to dead-letter or expiry queues."""
    return Command((b"SADD", _keys.aliases(namespace), *names), int)


def is_alias(namespace: str, name: str) -> Command[int]:
    """Whether a policy ever gave this name; the queues' settings show whether one still does."""
    return Command((b"SISMEMBER", _keys.aliases(namespace), name), int)


def given_names(keys: QueueKeys) -> Command[list[str]]:
    """The names of a queue's dead-letter and expiry queues that a policy gave; empty: none."""
    parts = (b"HGET", keys.settings, b"names")
    return Command(parts, lambda reply: (reply or b"").decode(errors="replace").split("\t"))


def configured(keys: QueueKeys) -> Command[tuple[bytes, bytes]]:
    """What the queue's own program declared, and the version of the map that was applied; empty: none."""
    command = (b"HMGET", keys["settings"], b"declared", b"version")
    return Command(command, lambda reply: (reply[0] or b"", reply[1] or b""))


def _is_one(reply: Any) -> bool:
    return reply == 1  # type: ignore[no-any-return]


def _read_replaced(reply: Any) -> bytes | None:
    return reply[1]  # type: ignore[no-any-return]
