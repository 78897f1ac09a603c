"""The return value of a send for ids that the queue already had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.errors import KnownId, QueueFull
from rq_dlq.values.failure import moment
from rq_dlq.values.readable import many
from rq_dlq.values.sent import SentBefore, all_sent_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.calls import Places, Taken
    from rq_dlq.errors import RqDlqError
    from rq_dlq.values.sent import Sent


AllSent: TypeAlias = "Callable[[Sequence[str], Sequence[int]], Sequence[Sent]]"
"""Makes what a send returns, from ids and births."""


def answer(
    queue: QueueState[Any],
    ids: Sequence[str],
    births: Sequence[int],
    known: Places,
    *,
    raises: bool,
    all_sent: AllSent = all_sent_with,
) -> list[Sent]:
    """The ids as a send returns them; logs which of them dead letters have, and which have another key.

    Args:
        births: of the messages; of those that are known any number.
        all_sent: makes what is returned for them.

    Raises:
        KnownId: known ids are errors, and there are some; or messages with these ids have another key or
            dependency, and were therefore not changed.
    """
    if known and raises:
        raise _known([ids[place] for place in sorted(known)])
    sent = [*all_sent(ids, births)]
    if known:
        for n, place in known.items():
            sent[n] = sent[n]._known_as(SentBefore(ids[n], place.known, place.birth, place.did))  # noqa: SLF001
        if refused := [ids[n] for n, place in known.items() if place.refused]:
            raise _other_key(refused)
        dead = [ids[n] for n, place in known.items() if place.known == "dead" and place.did is None]
        queue.client.blocked.warn(queue.name, dead)
        queue.client.blocked.warn_of_keys(
            queue.name, [ids[n] for n, place in known.items() if place.other_key]
        )
    return sent


def refusal(queue: str, taken: Taken, ttl: int) -> RqDlqError:
    """The error for messages with this time to live that a queue refused."""
    return full(queue, taken.length) if taken.refused is Word.FULL else past(ttl)


def full(
    queue: str, length: int, what: str = "nothing was sent. Send again", *, charge: bool = True
) -> QueueFull:
    """The error for a queue that has so many messages, and no room for those of a call."""
    why = f"full with {many(length, 'message')}" if length else "empty, and these are more than its limit"
    when = "when there is room" if length else "fewer together"
    return QueueFull(
        f"{queue}: {why}, so {what} {when}, or raise the limit: `rq-dlq policy set {queue} --max-length N`",
        queue,
        length,
        charge=charge,
    )


def past(ttl: int) -> RqDlqError:
    """The error for messages that would have expired."""
    return ERRORS[Word.PAST](
        f"expires_at {moment(-ttl):%Y-%m-%d %H:%M:%S} UTC: that has passed, so nothing was sent. Pass a "
        "later time; expired messages are not delivered"
    )


def _known(ids: Sequence[str]) -> KnownId:
    why = "the queue has it already, dead or alive, or remembers its ack, so nothing was sent with this id; "
    return _refused(ids, why + "`rq-dlq msg explain` shows where it is")


def _other_key(ids: Sequence[str]) -> KnownId:
    why = "the message with this id has another key or dependency, which never change, so it stays as it is; "
    return _refused(ids, why + "send with the same key, or under another id")


def _refused(ids: Sequence[str], why: str) -> KnownId:
    return KnownId(f"{ids[0] if len(ids) == 1 else f'{len(ids):,} ids'}: {why}", ids)
