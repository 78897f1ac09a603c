"""Whether replicas have what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._calls.call import Command

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

STAYS = 60_000  # milliseconds until the mark expires


def mark(keys: QueueKeys) -> Command[bytes]:
    """Write something, whatever was written before."""
    return Command((b"SET", keys.confirm, b"1", b"PX", STAYS))


def confirmed_by(replicas: int, within: int) -> Command[int]:
    """Wait up to `within` milliseconds (1 or more) until replicas have the last write of this connection.

    Reads as how many have it.
    """
    return Command((b"WAIT", replicas, within), int)
