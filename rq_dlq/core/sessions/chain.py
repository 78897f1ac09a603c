"""An ack that sends, the chain: the messages that follow from a message are sent with its ack, or not at all.

It is a session of one message that a known id refuses: such an id belongs to another message, or to one that
another delivery of this message has sent. The caller must specify which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rq_dlq.core.sessions import session as sessions
from rq_dlq.core.sessions.session import Session
from rq_dlq.core.sessions.shares import check_chain
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.core.settling.settle import ack
from rq_dlq.core.steps.step import MOST
from rq_dlq.errors import InvalidInput, LeaseLost
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import Link
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased


class Chain(Session):
    """An ack and the messages that it sends."""

    strict: ClassVar[bool] = True
    again: ClassVar[str] = "ack"

    @property
    def held(self) -> list[Leased[Any]]:
        """The message, even if this process has lost it: only the verb decides whether it is held."""
        return self.claimed


def ack_and_send(
    queue: QueueState[Any], one: Leased[Any], links: Sequence[Link], results: Mapping[str, bytes]
) -> Steps[list[Settlement]]:
    """Ack a message and send others, or do nothing. An ack of unknown outcome is repeated as it was.

    Raises:
        LeaseLost: the token is stale; nothing was done.
        KnownId: a queue has the id of a message that is sent to it; nothing was done.
        InvalidInput: it sends too much, or two messages have one id; nothing was done.
        CrossSlot, Unconfirmed, BrokerUnavailable, BrokerRefused: see `session.commit`.
    """
    chain: Chain = one._chain or Chain(queue, [one], results=results)
    if one._chain is None:
        if len(links) > MOST:
            raise InvalidInput(f"an ack sends {MOST:,} messages at most, not {len(links):,}: use a session")
        for link in links:
            yield from sessions.send(chain, *link)
        check_chain(chain.outgoing)
    try:
        yield from sessions.commit(chain)
    except LeaseLost:
        # An ack alone also ends so: it states the reason, and gives back the seat of a cancelled message.
        (settlement,) = yield from ack(queue, [one._held])
        held_or_raise(settlement, one.outcome)
        raise LeaseLost(f"message {one.id}: an ack before may have removed it; nothing was sent") from None
    finally:
        one._chain = chain if chain.indeterminate is not None else None
    return [Settlement(one.id, "acked")]
