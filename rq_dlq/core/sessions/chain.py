"""An ack that sends, the chain: the messages that follow from a message are sent with its ack, or not at all.

`delivery.ack(send=[…])` is a session of one message, with its result beside the ack, so there is one way to
send and ack in one call. It differs in four things:

- *A known id refuses it*, where a session leaves such a message out: the id belongs to another message, or to
  one that another delivery of this message has sent. After the ack no program could send it any more, and
  only the caller can tell which of the two it is. The verb looks before it writes anything. Then it notes in
  the sender's register that it begins: a call that was cut off and is repeated would find the ids that it has
  sent itself.
- *It is held or not by what the verb finds*, not by what the process remembers, so two threads cannot send
  without an ack. After `LeaseLost` a plain ack follows, which says why, and ends the call of a message that
  was cancelled (its seat is free then).
- *An ack of unknown outcome stays with its delivery*, and any later `ack()` repeats it: a plain one would
  drop what it had to send. A worker whose handler passes over that error settles by it.
- *Nothing is staged*: an id in a list is not seen by the verb. So half a megabyte is the limit, or one
  message.

It is made at once, in a round trip of its own; acks of a worker or a loop that send nothing go together as
before. A known id is no failure of the message, so the ack charges nothing, and neither does the policy if
the caller lets the error out: `KnownId.charge` is False, which a handler's call, a block and a session look
at. The id may become free while the message waits, as in a full queue; and a death would hide that the caller
has not said whether the known message is its own. The price is that such a message comes back until an
operator decides, with a warning each time; a program that prefers a dead letter makes the error `fatal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rq_dlq.core.sending.packing import check_sent_as_is
from rq_dlq.core.sessions import session as sessions
from rq_dlq.core.sessions.session import SessionState
from rq_dlq.core.sessions.shares import check_chain
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.core.settling.settle import ack
from rq_dlq.core.steps.step import MOST
from rq_dlq.errors import InvalidInput, LeaseLost
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import Addressed
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased


class Chain(SessionState):
    """An ack and the messages that it sends."""

    strict: ClassVar[bool] = True
    again: ClassVar[str] = "ack"

    @property
    def held(self) -> list[Leased[Any]]:
        """The message, even if this process has lost it: only the verb decides whether it is held."""
        return self.claimed


def ack_and_send(
    queue: QueueState[Any], one: Leased[Any], messages: Sequence[Addressed], results: Mapping[str, bytes]
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
        if len(messages) > MOST:
            raise InvalidInput(
                f"an ack sends {MOST:,} messages at most, not {len(messages):,}: use a session"
            )
        for message in messages:
            check_sent_as_is(message.options, "an ack that sends")
            yield from sessions.send(chain, *message)
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
