"""The return value of a send for ids that the queue already had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.errors import KnownId
from rq_dlq.values.sent import SentBefore, sent_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.calls import Places
    from rq_dlq.values.sent import Sent


def answer(
    queue: QueueState[Any], ids: Sequence[str], births: Sequence[int], known: Places, *, new: bool
) -> list[Sent]:
    """The ids as a send returns them; logs which of them dead letters have, and which have another key.

    Args:
        births: of the messages; of those that are known any number.

    Raises:
        KnownId: `new` was passed, and the queue already has some of the ids.
    """
    if known and new:
        raise _known([ids[place] for place in sorted(known)])
    sent = [*map(sent_with, ids, births)]
    if known:
        for n, place in known.items():
            sent[n] = SentBefore(ids[n], place.known, place.birth)
        queue.blocked.warn(queue.name, [ids[n] for n, place in known.items() if place.known == "dead"])
        queue.blocked.warn_of_keys(queue.name, [ids[n] for n, place in known.items() if place.other_key])
    return sent


def _known(ids: Sequence[str]) -> KnownId:
    what = ids[0] if len(ids) == 1 else f"{len(ids):,} ids"
    return KnownId(
        f"{what}: the queue has it already, dead or alive, or remembers its ack, so nothing was sent with "
        "this id; `rq-dlq msg explain` shows where it is",
        ids,
    )
