"""The life of a message: sent, claimed, settled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rq_dlq._calls.call import (
    Argument,
    Call,
    Command,
    Held,
    Part,
    Sender,
    read_ids,
    read_rows,
    whole,
)
from rq_dlq.values.failure import LAPSE, Cause
from rq_dlq.values.later import upgrade
from rq_dlq.values.settlement import Fate, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.message import Row

Suspects: TypeAlias = Literal["all", "alone", "none"]
"""How a claim treats suspects, messages whose lease ran out before. Claims by hand take all. A worker's claim
takes one alone or, while its process runs another, none."""
ONLY_SUSPECTS = -2  # the wait of such a claim if only suspects are ready
_MARK_STAYS = 60_000  # milliseconds until a mark expires


@dataclass(frozen=True, slots=True)
class Claimed:
    """The reply of a claim.

    Attributes:
        now: the server's clock, milliseconds.
        wait: 0: claim again at once; -1: nothing is known to come; ONLY_SUSPECTS: this claim may not take
            the messages that are ready; else milliseconds until something comes.
        count: how many messages were claimed. A repetition of a claim for "count" has the same count,
            whatever became of the messages.
        rows: the messages, except for such a claim.
    """

    now: int
    wait: int
    count: int
    rows: Sequence[Row] = ()


def send(sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument]) -> Call[list[int]]:
    """Add messages; items: id, payload. Reads as the places of those that the queue knew already."""
    args: dict[str, Argument] = {"number": sender.number, "delay": delay, "ttl": ttl}
    return Call("send", sender.keys, args, items, lambda reply: [int(number) - 1 for number in reply])


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
    answer: Literal["rows", "count"] = "rows",
) -> Call[Claimed]:
    """Hand out up to `count` messages for `lease` milliseconds.

    Args:
        patience: milliseconds that the client can wait for something to come.
        alarmed: the last claim gave this client, and no other, the time to wake.
        suspects: "all", unless a worker claims; then the first lapse of a message is not charged.
        thorough: claim nothing before all lapsed leases are swept. If they are too many for one script, the
            claim returns nothing, with a wait of 0.
        answer: "count": another process reads the messages, see `read_claim`.
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
        "seed": seed,
        "default_policy": default_policy,
        "lapse_error": LAPSE.cells(),
    }
    return Call("claim", keys, args, (), _read_claim if answer == "rows" else _read_claimed)


def _read_claimed(reply: Any) -> Claimed:
    now, wait, *count = reply
    return Claimed(now, wait, *(count or [0]))


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
    args: dict[str, Argument] = {"consumer": consumer, "seed": seed, "default_policy": default_policy}
    after = (b"" if delay is None else delay, int(charge), cause.cells())
    return _settle("nack", keys, args, held, *after, done="redelivered")


def poison(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    reason: Literal["poison", "unprocessable"],
    cause: Cause,
    consumer: str,
) -> Call[list[Settlement]]:
    """Poison: the messages are dead at once."""
    return _settle("poison", keys, {"consumer": consumer}, held, reason, cause.cells(), done="dead")


def release(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Release: the messages go back to the queue, uncharged."""
    return _settle("release", keys, {}, held, done="released")


def extend(keys: QueueKeys, held: Iterable[Held], *, lease: int) -> Call[tuple[int, list[bool]]]:
    """Extend leases. Reads as the new deadline (milliseconds) and whether each is still held."""
    items = [*chain.from_iterable(held)]

    def read(reply: Any) -> tuple[int, list[bool]]:
        deadline, *verdicts = whole(reply, 1 + len(items) // 2)
        return deadline, [verdict == _SETTLED for verdict in verdicts]

    return Call("extend", keys, {"lease": lease}, items, read)


def _settle(
    script: str,
    keys: QueueKeys,
    args: Mapping[str, Argument],
    held: Iterable[Held],
    *after: Argument,
    done: Fate,
) -> Call[list[Settlement]]:
    """A call that settles.

    Args:
        after: follows the id and the token of each message.
        done: what became of a message if the verdict is just "settled".
    """
    pairs = list(held)
    items = [*chain.from_iterable(((*pair, *after) for pair in pairs) if after else pairs)]

    def read(reply: Any, *, repeated: bool = False) -> list[Settlement]:
        if reply == _LATER:
            what = "the redelivery policy of this queue"
            raise upgrade(what, "")
        return [
            Settlement(i, done) if said == _SETTLED else _settlement(i, said, repeated)
            for (i, _), said in zip(pairs, whole(reply, len(pairs)), strict=True)
        ]

    return Call(script, keys, args, items, read, repetition_reader=partial(read, repeated=True))


_SETTLED, _SETTLED_BEFORE, _LOST, _GONE = 1, 2, 0, -1  # lua/lib/refusal.lua
_LATER = -2  # lua/nack.lua


def _settlement(message_id: str, said: Any, repeated: bool) -> Settlement:
    """The settlement of one message, unless the verdict is just "settled".

    A repeated call that finds its message settled by its own token, or gone, was done the first time.
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
    """The acks and sends of a session in one queue."""

    keys: QueueKeys
    held: Sequence[Held]
    outgoing: Sequence[Outgoing]


def ack_all(keys: QueueKeys, held: Sequence[Held]) -> Call[list[str]]:
    """Ack all or nothing. Reads as the ids not held; if any, nothing was done.

    A repeated call that finds every message gone is done: the first try did it. If one is still there, the
    first try did nothing either, and another consumer settled those that are gone.
    """

    def read(reply: Any) -> list[str]:
        return [held[place - 1][0] for place in reply[::2]]

    def read_repetition(reply: Any) -> list[str]:
        return [] if reply[1::2] == [_GONE] * len(held) else read(reply)

    return Call("ack_all", keys, {}, [*chain.from_iterable(held)], read, repetition_reader=read_repetition)


def commit(sender: Sender, shares: Sequence[Share]) -> Call[list[str]]:
    """Send and ack in several queues, all or nothing. Reads as the ids not held; if any, nothing was done."""
    items: list[Argument] = []
    for share in shares:
        items += (len(share.held), *chain.from_iterable(share.held), len(share.outgoing))
        for group in share.outgoing:
            items += (group.delay, group.ttl, len(group.items) // 2, *group.items)
    args: dict[str, Argument] = {"number": sender.number}
    families = [share.keys for share in shares]
    return Call("commit", sender.keys, args, items, lambda reply: read_ids(reply[2::2]), families)
