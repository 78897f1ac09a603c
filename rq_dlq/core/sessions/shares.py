"""The sends and acks of a session, or of an ack that sends, by queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rq_dlq.core.sessions import calls
from rq_dlq.core.settling.calls import NO_RESULTS
from rq_dlq.core.settling.settle import family_of
from rq_dlq.core.steps.step import CHUNK_BYTES
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Held
    from rq_dlq.values.leased import Leased

    OfQueues = Mapping[QueueKeys, Mapping[tuple[int, int], Sequence[Any]]]
    """The messages that go to each queue, by their delay and time to live: id, payload, …"""


def shares_of(
    queue: QueueName,
    held: Iterable[Leased[Any]],
    outgoing: OfQueues,
    targets: Mapping[QueueKeys, QueueState[Any]],
    results: Mapping[str, bytes] = NO_RESULTS,
) -> list[calls.Share]:
    """The messages to send and to ack, by queue; one that was claimed twice is acked with the newer token.

    Args:
        queue: the session's queue.
        targets: the queues that it sends to.
        results: by id, for messages whose results were asked for.

    Raises:
        InvalidInput: one is sent under the id of one that is acked.
    """
    acks: dict[QueueKeys, dict[str, Held]] = {}
    for delivery in held:
        family = family_of(queue, delivery.token)
        acks.setdefault(family, {})[delivery.id] = delivery._held
    for family, by_times in outgoing.items():
        if both := acks.get(family, {}).keys() & set(_ids(by_times)):
            raise _lost_both(min(both), family.family)
    return [
        calls.Share(
            family,
            list(acks.get(family, {}).values()),
            [
                calls.Outgoing(delay, ttl, list(items))
                for (delay, ttl), items in outgoing.get(family, {}).items()
            ],
            targets[family].opening if family in targets else "",
            results=results,
        )
        for family in dict.fromkeys((*acks, *outgoing))
    ]


def _ids(by_times: Mapping[tuple[int, int], Sequence[Any]]) -> list[str]:
    """The ids of the messages that are sent to one queue."""
    return [message_id for items in by_times.values() for message_id in items[::2]]


def ids_of(outgoing: OfQueues) -> list[str]:
    """The ids of the messages that a session sends."""
    return [message_id for by_times in outgoing.values() for message_id in _ids(by_times)]


def check_chain(outgoing: OfQueues) -> None:
    """Check the messages that an ack sends, which is one call.

    Raises:
        InvalidInput: it is too large, or two messages for one queue have one id: one would not be sent.
    """
    for family, by_times in outgoing.items():
        ids = _ids(by_times)
        if len({*ids}) < len(ids):
            twice = next(message_id for message_id in ids if ids.count(message_id) > 1)
            raise InvalidInput(
                f"{shown(twice)} is sent to {family.family!r} twice: give each message an id of its own"
            )
    if is_large(items for by_times in outgoing.values() for items in by_times.values()):
        raise InvalidInput(
            "an ack sends at most half a megabyte, or one message: send where the data is, not the data, or "
            "let a session do it"
        )


def is_large(groups: Iterable[Sequence[Any]]) -> bool:
    """Whether groups of messages are too large for one call: half a megabyte, and more than one message."""
    sizes = [size for items in groups for size in sizes_of(items)]
    return len(sizes) > 1 and sum(sizes) > CHUNK_BYTES


def sizes_of(items: Sequence[Any]) -> list[int]:
    """The bytes of each payload of the items (id, payload, …)."""
    return [len(payload) for payload in items[1::2]]


def _lost_both(message_id: str, family: str) -> InvalidInput:
    """The error for a message under the id of one that is acked: the queue has the id until the ack."""
    return InvalidInput(
        f"{shown(message_id)} cannot be sent to {family!r} together with its ack: the send would be "
        "ignored as a duplicate, and the ack would then delete the message. Nothing was sent or acked. Send "
        "it under another id; nack(delay=…) tries the same message again, dlq.redrive(edit=…) redrives a "
        "dead letter"
    )
