"""The end of a session: its acks and sends, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from rq_dlq.core.settling.calls import GONE
from rq_dlq.core.steps.call import Argument, Call, Held, Sender, read_ids

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys


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
    opening: str = ""


def ack_all(keys: QueueKeys, held: Sequence[Held]) -> Call[list[str]]:
    """Ack all or nothing. Reads as the ids not held; if any, nothing was done.

    A repeated call that finds every message gone is done: the first try did it. If one is still there, the
    first try did nothing either, and another consumer settled those that are gone.
    """

    def read(reply: Any) -> list[str]:
        return [held[place - 1][0] for place in reply[::2]]

    def read_repetition(reply: Any) -> list[str]:
        return [] if reply[1::2] == [GONE] * len(held) else read(reply)

    return Call("ack_all", keys, {}, [*chain.from_iterable(held)], read, repetition_reader=read_repetition)


def commit(sender: Sender, shares: Sequence[Share]) -> Call[list[str] | None]:
    """Send and ack in several queues, all or nothing.

    Reads as the ids not held; None: a queue was deleted since its opening. In both cases nothing was done.
    """

    def read(reply: Any) -> list[str] | None:
        return None if reply[0] < 0 else read_ids(reply[2::2])

    items: list[Argument] = []
    for share in shares:
        items += (share.opening, len(share.held), *chain.from_iterable(share.held), len(share.outgoing))
        for group in share.outgoing:
            items += (group.delay, group.ttl, len(group.items) // 2, *group.items)
    args: dict[str, Argument] = {"number": sender.number}
    families = [share.keys for share in shares]
    return Call("commit", sender.keys, args, items, read, families)
