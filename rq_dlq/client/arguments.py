"""Checks of arguments, for both colours. `Choice` checks the arguments that choose messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rq_dlq.core.settling import settle
from rq_dlq.errors import InvalidInput, PolicyError
from rq_dlq.policy import Entry
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.client.base import BrokerBase
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.leased import Leased

L = TypeVar("L", bound="Leased[Any]")


def work_of(queue: Any, broker: BrokerBase) -> QueueState[Any]:
    """The core of a queue that a user passed.

    Raises:
        InvalidInput: it is not a queue, or it belongs to another broker: one step cannot reach two servers.
    """
    other = getattr(queue, "_broker", None)
    if other is not broker and getattr(other, "url", None) != broker.url:
        message = f"{shown(queue)} is not a queue of {broker!r}: pass a queue from its queue(…)"
        raise InvalidInput(message)
    return queue._core  # type: ignore[no-any-return]


def check_entry(entry: object) -> None:
    """Refuse a value that is not an entry; None would remove the existing entry.

    Raises:
        PolicyError: it is not an entry.
    """
    if not isinstance(entry, Entry):
        message = f"{shown(entry)} is not an entry: pass Entry.of(…), or pass its fields to set()"
        raise PolicyError(message)


def batch(queue: Any, deliveries: Iterable[L]) -> list[L]:
    """The deliveries of a batch, from any iterable.

    Raises:
        InvalidInput: they are not deliveries, or one belongs to another queue, where its token is
            meaningless.
    """
    try:
        given: list[Any] = [*deliveries]
        for delivery in {one._lease: one for one in given}.values():  # one delivery per claim
            if delivery._queue is not queue:
                _check_family(queue, delivery)
    except (AttributeError, TypeError):
        message = "a batch is a list of deliveries, as claim() returns it"
        raise InvalidInput(message) from None
    return given


def _check_family(queue: Any, delivery: Any) -> None:
    """Check that a token from another queue object also holds the message in this queue.

    It does if both objects are for one queue or its dead letters, or show them under a shared name.

    Raises:
        InvalidInput: it does not.
    """
    source, token = delivery._queue, delivery.token
    if settle.family_of(source._core, token) != settle.family_of(queue._core, token):
        message = (
            f"message {delivery.id} is a delivery of {source!r}, not of {queue!r}, so nothing was done: "
            "settle each delivery through its own queue, or individually with delivery.ack()"
        )
        raise InvalidInput(message)


def arguments_of(call: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The positional and the keyword arguments of one of many calls.

    Raises:
        InvalidInput: it is neither a tuple nor a mapping.
    """
    if isinstance(call, tuple):
        return call, {}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(call, Mapping):
        return (), cast("Mapping[str, Any]", call)
    a_tuple = f"({shown(call)},)"
    raise InvalidInput(
        f"{shown(call)} is not a call: pass the arguments as a tuple, {a_tuple}, or as a mapping by their "
        "names"
    )
