"""Checks of arguments, for both colours. Arguments that choose messages are in `choosing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.errors import InvalidInput, PolicyError
from rq_dlq.policy import Entry, RedeliveryPolicy
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq import _work
    from rq_dlq.client.base import BrokerBase


def work_of(queue: Any, broker: BrokerBase) -> _work.Queue[Any]:
    """The core of a queue that a user passed.

    Raises:
        InvalidInput: it is not a queue, or it belongs to another broker: one step cannot reach two servers.
    """
    other = getattr(queue, "_broker", None)
    if other is not broker and getattr(other, "url", None) != broker.url:
        message = f"{shown(queue)} is not a queue of {broker!r}: pass one from its queue(…)"
        raise InvalidInput(message)
    return queue._core  # type: ignore[no-any-return]


def check_entry(entry: object) -> None:
    """Refuse a value that is not an entry: None would remove the existing one.

    Raises:
        PolicyError: it is not an entry.
    """
    if not isinstance(entry, Entry):
        message = f"{shown(entry)} is not an entry: pass Entry.of(…), or pass its parts to set()"
        raise PolicyError(message)


def check_fatal(redelivery: object) -> None:
    """Refuse a policy with fatal errors for the map: classes cannot be stored in Redis.

    Raises:
        PolicyError: it names errors.
    """
    if isinstance(redelivery, RedeliveryPolicy) and redelivery.fatal:
        message = "fatal: classes do not go to Redis. Set them in code, broker.queue(…, redelivery=…)"
        raise PolicyError(message)
