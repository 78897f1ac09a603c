"""Cancelling a message: it is removed immediately, and its worker is notified."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rq_dlq.core.cancelling import calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import name_of
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.values.cancelled import Cancelled
from rq_dlq.values.later import upgrade
from rq_dlq.values.names import check_id
from rq_dlq.values.sent import birth_meant

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps


def cancel(queue: QueueState[Any], message_id: str, *, by: str | None = None) -> Steps[Cancelled]:
    """Cancel one message: its own, if a send returned the id.

    Raises:
        InvalidMessage: it is not a valid id.
        InvalidInput: this is a dead-letter or expiry queue, or a Spark batch holds the message.
        UpgradeRequired: a later version wrote it in a form that this version cannot read.
    """
    check_id(message_id)
    return behind(queue, lambda _: _cancel(queue, message_id, by))


def _cancel(queue: QueueState[Any], message_id: str, by: str | None) -> Steps[Cancelled]:
    only_live(queue, "cancel messages of")
    act = yield from act_of("cancelled", by, chosen=message_id)
    found = yield from senders.once(
        queue.client.senders, queue.keys, calls.cancel, id=message_id, act=act, birth=birth_meant(message_id)
    )
    if found.word is Word.LATER:
        raise upgrade(f"message {message_id} of {queue.name!r}", "")
    if found.word is Word.BATCH:
        raise ERRORS[found.word](
            f"message {message_id} is in a Spark batch, which is settled as a whole: it was not cancelled. "
            "Stop the query first, or wait until the batch ends"
        )
    if found.token:
        with suppress(BrokerRefused, BrokerUnavailable):  # its worker notices when it extends the lease
            held = (str(message_id), found.token)  # plain text, even for an id that a send returned
            notice = calls.Notice(queue.name, held)
            yield from unrepeated(_tell(queue.keys.namespace, name_of(found.holder), notice))
    return Cancelled(found.word.value, found.birth or None)


def _tell(namespace: str, process: str, notice: calls.Notice) -> Steps[None]:
    yield Pipeline(calls.tell(namespace, process, notice))
