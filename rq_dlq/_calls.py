"""Every operation of the broker as a value: which script, which keys and arguments, how to read the reply.

Nothing here talks to Redis; `_redis` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from rq_dlq import _keys
from rq_dlq.failure import LAPSE, Cause
from rq_dlq.message import QueueStats, Row, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq._scripts import Script, Scripts

R = TypeVar("R")
Part = Literal["live", "dead", "expired"]
Place = Literal["ready", "scheduled", "dead", "expired"]
Argument = bytes | str | int | float
_BAND = 1 << 42  # lua/lib/place.lua: the score of a ready message is a priority's band and the due time
EVERYTHING = "+inf"


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One run of a script.

    Args:
        script: the name of its Lua file.
        args: by the names that the script binds.
        items: what follows for each item, flat.
        read: the reply as a value; its second argument says that the call is a repetition of one whose
            outcome is not known.
    """

    script: str
    keys: QueueKeys
    args: Mapping[str, Argument]
    items: Sequence[Argument]
    read: Callable[[Any, bool], R]

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command; it expects the server to know the script."""
        script = scripts[self.script]
        head = self.keys.heads.get(script.sha)
        if head is None:
            names = [self.keys[name] for name in script.keys]
            head = self.keys.heads[script.sha] = (b"EVALSHA", script.sha, len(names), *names)
        return (*head, *script.arguments(self.args), *self.items)

    def loads(self, scripts: Scripts) -> Script | None:
        """The script that the server must know before."""
        return scripts[self.script]


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One plain Redis command, for what is no transition of a message."""

    parts: tuple[Argument, ...]
    read: Callable[[Any, bool], R]

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command."""
        del scripts
        return self.parts

    def loads(self, scripts: Scripts) -> Script | None:
        """No script."""
        del scripts
        return None


@dataclass(frozen=True, slots=True)
class Claimed:
    """The reply of a claim.

    Attributes:
        now: the server's clock, milliseconds.
        wait: 0: claim again at once; -1: nothing is known to come; else milliseconds until something does.
    """

    now: int
    wait: int
    rows: list[Row]


def send(keys: QueueKeys, *, delay: int, ttl: int, items: Sequence[Argument]) -> Call[list[int]]:
    """Add messages; items: id, payload. Reads as the places (from 0) of ids that the queue knew already."""
    args: dict[str, Argument] = {"delay": delay, "ttl": ttl}
    return Call("send", keys, args, items, lambda reply, _: [place - 1 for place in reply])


def claim(
    keys: QueueKeys,
    *,
    part: Part,
    token: str,
    count: int,
    lease: int,
    patience: int,
    alarmed: bool = False,
    consumer: str,
    seed: float,
    default_policy: bytes,
) -> Call[Claimed]:
    """Hand out up to `count` messages for `lease` milliseconds.

    Args:
        patience: milliseconds that the client would wait for something to come.
        alarmed: the last claim told this client when to wake, and no other.
    """
    args: dict[str, Argument] = {
        "token": token,
        "count": count,
        "lease": lease,
        "part": part,
        "consumer": consumer,
        "patience": patience,
        "alarmed": int(alarmed),
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": LAPSE.cells(),
    }
    return Call("claim", keys, args, (), _read_claim)


def _read_claim(reply: Any, repeated: bool) -> Claimed:
    del repeated
    cells = iter(reply)
    now, wait = next(cells), next(cells)
    rows = [
        Row(name.decode(), record, state, history)
        for name, record, state, history in zip(cells, cells, cells, cells, strict=True)
    ]
    return Claimed(now, wait, rows)


Held = tuple[str, str]  # the id of a message and the token that holds it


def ack(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Done."""
    ids, items = _items(held)
    return Call("ack", keys, {}, items, _settlements(ids, "acked"))


def nack(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    delay: int | None,
    charge: bool,
    cause: Cause,
    consumer: str,
    seed: float,
    default_policy: bytes,
) -> Call[list[Settlement]]:
    """Failed; delay in milliseconds, None: the policy's."""
    after = (b"" if delay is None else delay, int(charge), cause.cells())
    ids, items = _items(held, *after)
    args: dict[str, Argument] = {
        "consumer": consumer,
        "seed": seed,
        "default_policy": default_policy,
    }
    return Call("nack", keys, args, items, _settlements(ids, "redelivered"))


def poison(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    reason: Literal["poison", "unprocessable"],
    cause: Cause,
    consumer: str,
) -> Call[list[Settlement]]:
    """Never again."""
    ids, items = _items(held, reason, cause.cells())
    return Call("poison", keys, {"consumer": consumer}, items, _settlements(ids, "dead"))


def release(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Given back, uncharged."""
    ids, items = _items(held)
    return Call("release", keys, {}, items, _settlements(ids, "released"))


def extend(keys: QueueKeys, held: Iterable[Held], *, lease: int) -> Call[tuple[int, list[bool]]]:
    """The leases start anew. Reads as the new deadline (milliseconds) and whether each is still held."""
    _, items = _items(held)
    return Call(
        "extend",
        keys,
        {"lease": lease},
        items,
        lambda reply, _: (reply[0], [verdict == 1 for verdict in reply[1:]]),
    )


def _items(held: Iterable[Held], *after: Argument) -> tuple[list[str], list[Argument]]:
    """The ids, and what a script is passed for each."""
    pairs = list(held)
    ids = [message_id for message_id, _ in pairs]
    flat = chain.from_iterable((*pair, *after) for pair in pairs) if after else chain.from_iterable(pairs)
    return ids, list(flat)


def _settlements(ids: list[str], done: Any) -> Callable[[Any, bool], list[Settlement]]:
    def read(reply: Any, repeated: bool) -> list[Settlement]:
        return [
            Settlement(i, done) if said == _SETTLED else _settlement(i, said, repeated)
            for i, said in zip(ids, reply, strict=True)
        ]

    return read


_SETTLED, _SETTLED_BEFORE, _LOST, _GONE = 1, 2, 0, -1  # lua/lib/fence.lua


def _settlement(message_id: str, said: Any, repeated: bool) -> Settlement:
    """What a script says of one message, where it is more than "settled".

    A repeated call finds its message settled by its own token, or gone: then the first try did it.
    """
    if isinstance(said, bytes):
        outcome, _, delay = said.decode().partition(" ")
        return Settlement(message_id, outcome, int(delay) / 1000 if delay else None)  # type: ignore[arg-type]
    if repeated and said in {_SETTLED_BEFORE, _GONE}:
        return Settlement(message_id, "settled")
    return Settlement(message_id, "gone" if said == _GONE else "lost")


def sweep(keys: QueueKeys, *, limit: int, seed: float, default_policy: bytes) -> Call[int]:
    """Bring back what lapsed leases held. Reads as how many messages were looked at."""
    args: dict[str, Argument] = {
        "limit": limit,
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": LAPSE.cells(),
    }
    return Call("sweep", keys, args, (), _number)


def promote(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Make due messages ready. Reads as how many."""
    return Call("promote", keys, {"limit": limit}, (), _number)


def expire(keys: QueueKeys, *, limit: int) -> Call[int]:
    """Move messages whose time to live is over. Reads as how many were looked at."""
    return Call("expire", keys, {"limit": limit}, (), _number)


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
    return Call("redrive", keys, args, ids, _ids)


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
    return Call("purge", keys, args, ids, _ids)


def browse(
    keys: QueueKeys,
    *,
    place: Place = "ready",
    ids: Sequence[str] = (),
    first: int = 0,
    limit: int = 0,
) -> Call[list[Row]]:
    """Look at messages: these, or a page of one index in its order."""
    args: dict[str, Argument] = {"place": place, "first": first, "limit": limit}
    return Call("browse", keys, args, ids, _rows)


def stats(keys: QueueKeys, name: str) -> Call[tuple[int, QueueStats]]:
    """Reads as the server's clock (milliseconds) and the counts."""
    return Call("stats", keys, {}, (), lambda reply, _: (reply[0], _read_stats(name, reply)))


def declare(keys: QueueKeys, policy: bytes) -> Call[bytes | None]:
    """Say what the queue's policy is. Reads as the one it replaces."""
    return Call("declare", keys, {"declared": policy}, (), lambda reply, _: reply)


def register(keys: QueueKeys) -> Command[int]:
    """Note the name of a queue, so that it is listed."""
    return Command((b"SADD", _keys.queues(keys.namespace), keys.home), _number)


def registered(namespace: str) -> Command[list[str]]:
    """The names of all queues, sorted."""
    return Command((b"SMEMBERS", _keys.queues(namespace)), lambda reply, _: sorted(_ids(reply)))


def encode_policy(redelivery: Mapping[str, object]) -> bytes:
    """A queue's policy as it stands in Redis."""
    return msgspec.json.encode({"redelivery": redelivery})


def _number(reply: Any, repeated: bool = False) -> int:
    del repeated
    return int(reply)


def _ids(reply: Any, repeated: bool = False) -> list[str]:
    del repeated
    return [item.decode() for item in reply]


def _rows(reply: Any, repeated: bool) -> list[Row]:
    del repeated
    return [
        Row(
            reply[i].decode(),
            reply[i + 1],
            reply[i + 2],
            reply[i + 3],
            int(float(reply[i + 4] or 0)),
        )
        for i in range(0, len(reply), 5)
    ]


def _read_stats(name: str, reply: Any) -> QueueStats:
    now, ready, scheduled, leased, dead, expired = reply[:6]
    head, due, _ = (float(cell) if cell else None for cell in reply[6:9])
    totals = {reply[i].decode(): int(reply[i + 1]) for i in range(9, len(reply), 2)}
    totals.pop("birth", None)
    return QueueStats(
        name, ready, scheduled, leased, dead, expired,
        oldest=None if head is None else max(0.0, (now - head % _BAND) / 1000),
        next_due=None if due is None else max(0.0, (due - now) / 1000),
        totals=totals,
    )  # fmt: skip
