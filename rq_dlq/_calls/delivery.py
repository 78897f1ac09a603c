"""The life of a message: sent, claimed, settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from rq_dlq._calls.call import (
    Argument,
    Call,
    Command,
    Held,
    Part,
    Sender,
    read_rows,
    whole,
)
from rq_dlq.values.failure import LAPSE, Cause
from rq_dlq.values.later import upgrade
from rq_dlq.values.settlement import Fate, Settlement, settled_alike

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.message import Row

Suspects: TypeAlias = Literal["all", "alone", "none"]
"""How a claim treats suspects, messages whose lease ran out before. Claims by hand take all. A worker's claim
takes one alone or, while its process runs another, none."""
ONLY_SUSPECTS = -2  # the wait of such a claim if only suspects are ready
DELETED = -3  # the wait of a claim if the queue was deleted since its opening
_LAPSE = LAPSE.cells()
_MARK_STAYS = 60_000  # milliseconds until a mark expires


class Claimed(NamedTuple):  # a tuple is made faster than a frozen dataclass
    """The reply of a claim.

    Attributes:
        now: the server's clock, milliseconds.
        wait: 0: claim again at once; -1: nothing is known to come; ONLY_SUSPECTS: this claim may not take
            the messages that are ready; DELETED: the queue was deleted since its opening; else milliseconds
            until something comes.
        messages: how many were claimed. A repetition of a claim for "count" has the same number, whatever
            became of the messages.
        rows: the messages, except for such a claim.
        size: about how many bytes they have, for such a claim.
    """

    now: int
    wait: int
    messages: int
    rows: Sequence[Row] = ()
    size: int = 0


def send(
    sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument], opening: str = ""
) -> Call[list[int] | None]:
    """Add messages; items: id, payload.

    Args:
        opening: of the queue, when the client opened it; empty: any.

    Returns:
        A call that reads as the places of those that the queue knew already; None: the queue was deleted
        since its opening, so nothing was added.
    """
    args: dict[str, Argument] = {
        "number": sender.number,
        "delay": delay,
        "ttl": ttl,
        "opening": opening,
    }
    return Call("send", sender.keys, args, items, _read_known)


def restore(sender: Sender, *, items: Sequence[Argument], opening: str) -> Call[list[int] | None]:
    """Put exported messages back; items: id, record, state, history.

    Returns:
        A call that reads as that of `send`.
    """
    args: dict[str, Argument] = {"number": sender.number, "opening": opening}
    return Call("restore", sender.keys, args, items, _read_known)


def _read_known(reply: Any) -> list[int] | None:
    return None if reply == _NOT_OPEN else [int(number) - 1 for number in reply]


def mark(keys: QueueKeys) -> Command[bytes]:
    """Write something, whatever was written before, so that a `WAIT` has a last write to ask for."""
    return Command((b"SET", keys.confirm, b"1", b"PX", _MARK_STAYS))


def confirmed_by(replicas: int, within: int) -> Command[int]:
    """Wait up to `within` milliseconds (1 or more) until replicas have the last write of this connection.

    Reads as how many have it.
    """
    return Command((b"WAIT", replicas, within), int)


def claim(
    keys: QueueKeys,
    *,
    part: Part,
    token: str,
    count: int,
    lease: int,
    patience: int,
    alarmed: bool = False,
    suspects: Suspects = "all",
    thorough: bool = False,
    consumer: str,
    seed: float,
    default_policy: bytes,
    opening: str = "",
    answer: Literal["rows", "count"] = "rows",
) -> Call[Claimed]:
    """Hand out up to `count` messages for `lease` milliseconds.

    Args:
        patience: milliseconds that the client can wait for something to come.
        alarmed: the last claim gave this client, and no other, the time to wake.
        suspects: "all", unless a worker claims; then the first lapse of a message is not charged.
        thorough: claim nothing before all lapsed leases are swept. If they are too many for one script, the
            claim returns nothing, with a wait of 0.
        opening: of the queue, when the client opened it; empty: any.
        answer: "count": another process reads the messages, see `read_claim`; a lapse is not charged.
    """
    args: dict[str, Argument] = {
        "token": token,
        "count": count,
        "lease": lease,
        "part": part,
        "consumer": consumer,
        "patience": patience,
        "alarmed": int(alarmed),
        "suspects": suspects,
        "answer": answer,
        "thorough": int(thorough),
        "opening": opening,
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": _LAPSE,
    }
    return Call("claim", keys, args, (), _read_claim if answer == "rows" else _read_claimed)


def _read_claimed(reply: Any) -> Claimed:
    now, wait, count, size = reply if len(reply) == 4 else (*reply, 0, 0)  # noqa: PLR2004
    return Claimed(now, wait, count, size=size)


def _read_claim(reply: Any) -> Claimed:
    now, wait, *cells = whole(reply, 2, and_each=4)
    rows = read_rows(cells)
    return Claimed(now, wait, len(rows), rows)


def ack(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Ack: the messages are done."""
    return _settle("ack", keys, {}, held, done="acked")


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
    """Nack: the messages failed; delay in milliseconds, None: the policy's."""
    args: dict[str, Argument] = {
        "consumer": consumer,
        "seed": seed,
        "default_policy": default_policy,
        "delay": b"" if delay is None else delay,
        "charge": int(charge),
        "error": cause.cells(),
    }
    return _settle("nack", keys, args, held, done="redelivered")


def poison(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    reason: Literal["poison", "unprocessable"],
    cause: Cause,
    consumer: str,
    seed: float,
    default_policy: bytes,
) -> Call[list[Settlement]]:
    """Poison: the messages are dead at once; the policy says how long a dead letter rests."""
    args: dict[str, Argument] = {
        "consumer": consumer,
        "seed": seed,
        "default_policy": default_policy,
        "reason": reason,
        "error": cause.cells(),
    }
    return _settle("poison", keys, args, held, done="dead")


def release(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Release: the messages go back to the queue, uncharged."""
    return _settle("release", keys, {}, held, done="released")


def extend(
    keys: QueueKeys, held: Iterable[Held], *, lease: int, only_later: bool = False
) -> Call[tuple[int, list[bool]]]:
    """Extend leases. Reads as the new deadline (milliseconds) and whether each is still held.

    Args:
        only_later: leave a lease as it is that ends later.
    """
    ids, items = _items(held)

    def read(reply: Any) -> tuple[int, list[bool]]:
        deadline, *verdicts = whole(reply, 1 + len(ids))
        return deadline, [verdict == _SETTLED for verdict in verdicts]

    return Call("extend", keys, {"lease": lease, "only_later": int(only_later)}, items, read)


def _items(held: Iterable[Held]) -> tuple[Sequence[str], list[Argument]]:
    """The ids of held messages, and the items that name them (lua/lib/settled).

    The items are how many, their ids, then each token and how many of these, in a row, it holds.
    """
    ids, tokens = zip(*held, strict=True)
    items: list[Argument] = [len(ids), *ids]
    for token, run in groupby(tokens):
        items += token, len([*run])
    return ids, items


def _settle(
    script: str, keys: QueueKeys, args: Mapping[str, Argument], held: Iterable[Held], *, done: Fate
) -> Call[list[Settlement]]:
    """A call that settles; done: what became of a message if the verdict is just "settled"."""
    ids, items = _items(held)

    def read(reply: Any, *, repeated: bool = False) -> list[Settlement]:
        if reply == _LATER:
            raise upgrade("the redelivery policy of this queue", "")
        if reply == _SETTLED:
            return settled_alike(ids, done)
        verdicts = whole(reply, len(ids))
        return [
            Settlement(i, done) if verdict == _SETTLED else _settlement(i, verdict, repeated)
            for i, verdict in zip(ids, verdicts, strict=True)
        ]

    return Call(script, keys, args, items, read, repetition_reader=partial(read, repeated=True))


_SETTLED, _SETTLED_BEFORE, _LOST, GONE = 1, 2, 0, -1  # lua/lib/refusal.lua
_LATER = -2  # lua/nack.lua
_NOT_OPEN = -1  # lua/send.lua


def _settlement(message_id: str, answer: Any, repeated: bool) -> Settlement:
    """The settlement of one message, unless the verdict is just "settled".

    A repeated call that finds its message settled by its own token, or gone, was done the first time.
    """
    if isinstance(answer, bytes):
        outcome, _, delay = answer.decode().partition(" ")
        return Settlement(message_id, outcome, int(delay) / 1000 if delay else None)  # type: ignore[arg-type]
    if repeated and answer in {_SETTLED_BEFORE, GONE}:
        return Settlement(message_id, "settled")
    return Settlement(message_id, "gone" if answer == GONE else "lost")
