"""The life of a message: sent, claimed, settled."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rq_dlq._calls.call import Argument, Call, Part, Sender, read_ids, read_number, read_rows
from rq_dlq.values.failure import LAPSE, Cause
from rq_dlq.values.later import upgrade
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.message import Row

Held = tuple[str, str]  # the id of a message and the token that holds it

Suspects: TypeAlias = Literal["all", "alone", "none"]
"""How a claim treats suspects, messages whose lease ran out before. Claims by hand take all. A worker's claim
takes one alone or, while its process runs another, none."""
ONLY_SUSPECTS = -2  # the wait of such a claim if only suspects are ready


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


def send(sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument]) -> Call[int]:
    """Add messages; items: id, payload. Reads as how many the queue did not know yet."""
    args: dict[str, Argument] = {"number": sender.number, "delay": delay, "ttl": ttl}
    return Call("send", sender.keys, args, items, read_number)


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


def _read_claimed(reply: Any, repeated: bool) -> Claimed:
    del repeated
    now, wait, *count = reply
    return Claimed(now, wait, *(count or [0]))


def _read_claim(reply: Any, repeated: bool) -> Claimed:
    del repeated
    now, wait, *cells = reply
    rows = read_rows(cells)
    return Claimed(now, wait, len(rows), rows)


def ack(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Ack: the messages are done."""
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
    """Nack: the messages failed; delay in milliseconds, None: the policy's."""
    after = (b"" if delay is None else delay, int(charge), cause.cells())
    ids, items = _items(held, *after)
    args: dict[str, Argument] = {"consumer": consumer, "seed": seed, "default_policy": default_policy}
    return Call("nack", keys, args, items, _settlements(ids, "redelivered"))


def poison(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    reason: Literal["poison", "unprocessable"],
    cause: Cause,
    consumer: str,
) -> Call[list[Settlement]]:
    """Poison: the messages are dead at once."""
    ids, items = _items(held, reason, cause.cells())
    return Call("poison", keys, {"consumer": consumer}, items, _settlements(ids, "dead"))


def release(keys: QueueKeys, held: Iterable[Held]) -> Call[list[Settlement]]:
    """Release: the messages go back to the queue, uncharged."""
    ids, items = _items(held)
    return Call("release", keys, {}, items, _settlements(ids, "released"))


def extend(keys: QueueKeys, held: Iterable[Held], *, lease: int) -> Call[tuple[int, list[bool]]]:
    """Extend leases. Reads as the new deadline (milliseconds) and whether each is still held."""
    _, items = _items(held)
    return Call(
        "extend",
        keys,
        {"lease": lease},
        items,
        lambda reply, _: (reply[0], [verdict == 1 for verdict in reply[1:]]),
    )


def _items(held: Iterable[Held], *after: Argument) -> tuple[list[str], list[Argument]]:
    """The ids, and the values that a script gets for each."""
    pairs = list(held)
    ids = [message_id for message_id, _ in pairs]
    flat = chain.from_iterable((*pair, *after) for pair in pairs) if after else chain.from_iterable(pairs)
    return ids, list(flat)


def _settlements(ids: list[str], done: Any) -> Callable[[Any, bool], list[Settlement]]:
    def read(reply: Any, repeated: bool) -> list[Settlement]:
        if reply == _LATER:
            what = "the redelivery policy of this queue"
            raise upgrade(what, "")
        return [
            Settlement(i, done) if said == _SETTLED else _settlement(i, said, repeated)
            for i, said in zip(ids, reply, strict=True)
        ]

    return read


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
    ids, items = _items(held)

    def read(reply: Any, repeated: bool) -> list[str]:
        places, verdicts = reply[::2], reply[1::2]
        if repeated and verdicts == [_GONE] * len(ids):
            return []
        return [ids[place - 1] for place in places]

    return Call("ack_all", keys, {}, items, read)


def commit(sender: Sender, shares: Sequence[Share]) -> Call[list[str]]:
    """Send and ack in several queues, all or nothing. Reads as the ids not held; if any, nothing was done."""
    items: list[Argument] = []
    for share in shares:
        items += (len(share.held), *chain.from_iterable(share.held), len(share.outgoing))
        for group in share.outgoing:
            items += (group.delay, group.ttl, len(group.items) // 2, *group.items)
    args: dict[str, Argument] = {"number": sender.number}
    families = [share.keys for share in shares]
    return Call("commit", sender.keys, args, items, lambda reply, _: read_ids(reply[2::2]), families)
