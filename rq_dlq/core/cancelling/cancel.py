"""Cancelling a message: it is gone at once, and who works on it is told."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from rq_dlq.core.cancelling import calls
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.queues.views import find
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import name_of
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import Batch
from rq_dlq.errors import BrokerRefused, BrokerUnavailable, InvalidInput
from rq_dlq.values.later import upgrade
from rq_dlq.values.names import check_id

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps

Cancelled: TypeAlias = Literal["cancelled", "acked", "dead", "expired", "unknown"]
"""What a cancel found: it is gone now; or it was done before, as far as the queue remembers, it is dead or
expired, or there is no such message."""


def cancel(queue: QueueState[Any], message_id: str, *, by: str | None = None) -> Steps[Cancelled]:
    """Cancel one message.

    Raises:
        InvalidMessage: this is not an id.
        InvalidInput: this is a queue of dead letters; or a batch of Spark holds the message.
        UpgradeRequired: a later version wrote it, in a form that this one cannot read.
    """
    check_id(message_id)
    yield from find(queue)
    only_live(queue, "cancel messages of")
    act = yield from act_of("cancelled", by, chosen=message_id)
    found = yield from senders.once(queue.senders, queue.keys, calls.cancel, id=message_id, act=act)
    if found.word == "later":
        raise upgrade(f"message {message_id} of {queue.name!r}", "")
    if found.word == "batch":
        raise InvalidInput(
            f"message {message_id} is in a batch of Spark, which is done as a whole: it was not cancelled. "
            "Stop the query first, or wait until the batch ends"
        )
    if found.token:
        with suppress(BrokerRefused, BrokerUnavailable):  # its worker finds out when it extends the lease
            held = (str(message_id), found.token)  # plain text, also of what a send returned
            notice = calls.Notice(queue.name, held)
            yield from unrepeated(_tell(queue.keys.namespace, name_of(found.holder), notice))
    return cast("Cancelled", found.word)


def _tell(namespace: str, process: str, notice: calls.Notice) -> Steps[None]:
    yield Batch(calls.tell(namespace, process, notice))
