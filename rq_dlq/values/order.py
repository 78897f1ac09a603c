"""The order of the places of a queue, as `lua/lib/order.lua` has it: what was found by id is put into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.values import record as records
from rq_dlq.values import state as states

if TYPE_CHECKING:
    from rq_dlq.values.message import Row


def position_of(place: str, row: Row) -> tuple[int, int, bytes, str]:
    """What sorts the messages of a place; of `leased` by the ends of their leases.

    Args:
        row: with its state and the head of its record.
    """
    head = row.record[records.BIRTH]
    state = states.read_state(row.state) or states.NEW
    sent = records.birth_of(row.record)
    due = state.due or sent
    flags = row.record[records.FLAGS] if len(row.record) > records.FLAGS else 0  # else it is damaged
    last = max(0, 9 - (flags & records.PRIORITY))
    if place == "leased":
        return (0, row.lease_until, head, row.id)
    # In a millisecond, what is due when it was sent has the order of its sending, and comes after the others.
    tie = bytes([16]) + head if due == sent else bytes([last]) + head
    return (last if place == "ready" else 0, due, tie, row.id)
