"""What an ack is to send, as users pass it, for both colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rq_dlq.client.arguments import work_of
from rq_dlq.core.sending.packing import Addressed, own_options
from rq_dlq.core.sending.send import PLAIN
from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown
from rq_dlq.values.message import Message

if TYPE_CHECKING:
    from rq_dlq.client.base import BrokerBase


def all_addressed(send: Iterable[Any], broker: BrokerBase) -> list[Addressed]:
    """The messages, from pairs of a queue and a body, or of a task and its arguments.

    Raises:
        InvalidInput: they are not such pairs, or a queue is of another broker.
        InvalidMessage: the arguments do not fit a task.
    """
    given: Any = send  # as users pass it
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise _not_pairs(send, "send=[(invoices, bill)]")
    return [addressed(pair, broker) for pair in send]


def addressed(pair: Any, broker: BrokerBase, example: str = "send=[(invoices, bill)]") -> Addressed:
    """One of them; see `all_addressed`. An error shows the example of the argument."""
    given: object = pair
    cells = cast("Sequence[Any]", pair if isinstance(pair, tuple | list) else ())
    try:
        target, what = cells
    except ValueError:
        raise _not_pairs(given, example) from None
    of_task = getattr(target, "_addressed", None)
    if of_task is not None:
        work_of(target._queue, broker)
        return of_task(what)  # type: ignore[no-any-return]
    core = work_of(target, broker)
    if isinstance(what, Message):
        return Addressed(core, what.body, what.id, own_options(what, PLAIN))  # pyright: ignore[reportUnknownArgumentType]
    return Addressed(core, what, None, PLAIN)


def _not_pairs(given: object, example: str) -> InvalidInput:
    return InvalidInput(
        f"{shown(given)} cannot be sent: pass a queue and a body, or a task and its arguments, as {example}"
    )
