"""Durability "replicated": asks in the same round trip whether replicas have the messages.

A call that adds messages is followed by a write to the queue's `confirm` and a `WAIT`. The write is needed
because `WAIT` covers the last write of its connection (from Redis 7.2 on), and a repeated send may write
nothing: without it, a repetition would confirm a message that no replica has. If the server does not know the
function, everything that follows the call is sent again with it. If only the write of the mark is refused
(out of memory), the calls are sent once more without it, and the messages are `Unconfirmed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq.core.steps.call import Call, Command
from rq_dlq.core.steps.step import Pipeline, Steps
from rq_dlq.errors import BrokerRefused, Unconfirmed

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys


@dataclass(frozen=True, slots=True)
class Confirm:
    """How many replicas must confirm a send.

    Attributes:
        replicas: their number.
        within: milliseconds to wait for them.
    """

    replicas: int
    within: int


def taken_in(
    confirm: Confirm | None, keys: QueueKeys, calls: Sequence[Call[Any]]
) -> Steps[tuple[list[Any], str]]:
    """Run calls that send.

    WAIT covers only the last write of a connection (since Redis 7.2), and a repeated send writes nothing, so
    a mark is written last.

    Args:
        keys: of a queue on the node that the calls run on.

    Returns:
        Their results, and why they are not confirmed; empty: they are.
    """
    if confirm is None:
        return ((yield Pipeline(calls)) if len(calls) > 1 else [(yield calls[0])]), ""
    asked = mark(keys), confirmed_by(confirm.replicas, confirm.within)
    try:
        *results, _, there = yield Pipeline([*calls, *asked])
    except BrokerRefused as refusal:
        # Perhaps only the mark was refused, since memory is full by now. Repeat the calls, so that no message
        # is reported as refused that is in the queue: they are refused themselves, or change nothing.
        return (yield Pipeline(calls)), f"the server did not ask the replicas: {refusal}"
    if there >= confirm.replicas:
        return results, ""
    return results, f"within {confirm.within} ms {there} of {confirm.replicas} had it"


def unconfirmed(
    ids: Sequence[str], why: str, again: str = "Send again under the same ids, which is safe"
) -> Unconfirmed:
    """The error for messages that too few replicas have."""
    what = ids[0] if len(ids) == 1 else f"{len(ids):,} messages"
    return Unconfirmed(
        f"{what}: in the queue, but too few replicas confirmed it, so a failover may lose it ({why}). "
        f"{again}; `rq-dlq doctor` shows the replicas",
        ids,
    )


_MARK_STAYS = 60_000  # milliseconds until a mark expires


def mark(keys: QueueKeys) -> Command[bytes]:
    """Write a value, so that a `WAIT` has a last write to confirm."""
    return Command((b"SET", keys.confirm, b"1", b"PX", _MARK_STAYS))


def confirmed_by(replicas: int, within: int) -> Command[int]:
    """Wait up to `within` milliseconds (1 or more) until replicas have the last write of this connection.

    Reads as how many have it.
    """
    return Command((b"WAIT", replicas, within), int)
