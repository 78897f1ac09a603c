"""The life of a message: sent, claimed, settled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from rq_dlq import _keys
from rq_dlq._calls.call import Argument, Call, Part, read_ids
from rq_dlq.failure import LAPSE, Cause
from rq_dlq.message import Row, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rq_dlq._keys import QueueKeys

Held = tuple[str, str]  # the id of a message and the token that holds it


@dataclass(frozen=True, slots=True)
class Claimed:
    """The reply of a claim.

    Attributes:
        now: the server's clock, milliseconds.
        wait: 0: claim again at once; -1: nothing is known to come; else milliseconds until something does.
        count: how many messages were claimed. Where only this was asked for, a repetition says the same,
            whatever became of them.
        rows: these, unless only their count was asked for.
    """

    now: int
    wait: int
    count: int
    rows: Sequence[Row] = ()


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
    attributed: bool = False,
    consumer: str,
    seed: float,
    default_policy: bytes,
    answer: Literal["rows", "count"] = "rows",
) -> Call[Claimed]:
    """Hand out up to `count` messages for `lease` milliseconds.

    Args:
        patience: milliseconds that the client would wait for something to come.
        alarmed: the last claim told this client when to wake, and no other.
        attributed: the client says which messages it works on (`begin`), the first of them at once; when the
            lease lapses only those are charged.
        answer: count: who reads the messages is somebody else, see `read_claim`.
    """
    args: dict[str, Argument] = {
        "token": token,
        "count": count,
        "lease": lease,
        "part": part,
        "consumer": consumer,
        "patience": patience,
        "alarmed": int(alarmed),
        "attributed": int(attributed),
        "answer": answer,
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": LAPSE.cells(),
    }
    return Call("claim", keys, args, (), _read_claim if answer == "rows" else _read_claimed)


def _read_claimed(reply: Any, repeated: bool) -> Claimed:
    del repeated
    now, wait, *count = reply
    return Claimed(now, wait, *(count or [0]))


def _read_claim(reply: Any, repeated: bool) -> Claimed:
    del repeated
    cells = iter(reply)
    now, wait = next(cells), next(cells)
    rows = [
        Row(name.decode(), record, state, history)
        for name, record, state, history in zip(cells, cells, cells, cells, strict=True)
    ]
    return Claimed(now, wait, len(rows), rows)


def begin(keys: QueueKeys, token: str, ids: Sequence[str]) -> Call[bool]:
    """The handlers of these messages run from here on, and no others of the claim.

    Reads as whether it was noted: it is not where the claim is over, or not attributed.
    """
    return Call("begin", keys, {"token": token}, ids, lambda reply, _: bool(reply))


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


_SETTLED, _SETTLED_BEFORE, _LOST, _GONE = 1, 2, 0, -1  # lua/lib/refusal.lua


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


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages of a session that share their times; durations in milliseconds, 0: none."""

    delay: int
    ttl: int
    items: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Share:
    """What a session does in one queue."""

    keys: QueueKeys
    held: Sequence[Held]
    outgoing: Sequence[Outgoing]


def ack_all(keys: QueueKeys, held: Sequence[Held]) -> Call[list[str]]:
    """Done, all or nothing. Reads as the ids not held; if any, nothing was done."""
    ids, items = _items(held)

    def read(reply: Any, repeated: bool) -> list[str]:
        lost = zip(reply[::2], reply[1::2], strict=True)
        return [ids[place - 1] for place, said in lost if not (repeated and said == _GONE)]

    return Call("ack_all", keys, {}, items, read)


def commit(shares: Sequence[Share], commit_id: str) -> Call[list[str]]:
    """Send and ack in several queues, all or nothing. Reads as the ids not held; if any, nothing was done."""
    items: list[Argument] = []
    for share in shares:
        items += (len(share.held), *chain.from_iterable(share.held), len(share.outgoing))
        for group in share.outgoing:
            items += (group.delay, group.ttl, len(group.items) // 2, *group.items)
    keys = _keys.NamedKeys({"done": shares[0].keys.commit(commit_id)})
    families = [share.keys for share in shares]
    return Call("commit", keys, {}, items, lambda reply, _: read_ids(reply[2::2]), families)
