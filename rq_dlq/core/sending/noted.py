"""Sending under a number that was noted elsewhere, so that the call can be repeated at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rq_dlq._keys import MoreKeys
from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.sending import calls
from rq_dlq.core.sending.answers import answer, full, refusal
from rq_dlq.core.steps.call import Sender
from rq_dlq.core.steps.confirm import taken_in, unconfirmed
from rq_dlq.core.steps.replies import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Argument
    from rq_dlq.core.steps.step import Steps


def send_noted(
    queue: QueueState[Any], nonce: str, number: int, *, delay: int, ttl: int, items: Sequence[Argument]
) -> Steps[None]:
    """Make one call that sends; items: id, payload, ….

    Its register stays, so this call is the only one with this number, however late it is repeated. The
    numbers of a sender must reach each queue in ascending order.

    Args:
        nonce: of the sender, which makes no other calls.
        number: of the call.
        delay, ttl: as in `values/times.py`; what has expired by now is expired at once.

    Raises:
        InvalidInput: the queue has only messages that failed elsewhere.
        QueueFull: it has no room for all of them. Those that it had room for were sent, which Redis notes:
            the same call sends the others.
        Unconfirmed: too few replicas have them.
    """
    yield from open_live(queue, "send to")
    sender = Sender(MoreKeys(queue.keys, {"sender": queue.keys.sender(nonce)}), number, stays=True)
    while True:
        enter = calls.verb_for(queue)
        call = enter(sender, delay=delay, ttl=ttl, items=items, opening=queue.opening)
        taken: calls.Taken | None
        (taken,), why = yield from taken_in(queue.client.confirm, queue.keys, [call])
        if taken is None:
            yield from open_again(queue, "send to")  # it was deleted
        elif taken.refused is Word.LIMITED:
            queue.limited = True
        else:
            break
    ids = cast("Sequence[str]", items[::2])
    if taken.refused is Word.FULL:
        raise full(queue.name, taken.length, "what is left waits, and follows", charge=False)
    if taken.refused is not None:
        raise refusal(queue.name, taken, ttl)
    if why:
        raise unconfirmed(ids, why)
    answer(queue, ids, [0] * len(ids), taken.known, raises=False)
