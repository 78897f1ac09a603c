"""Commands to the server below the level of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq import _keys
from rq_dlq._calls import Command

if TYPE_CHECKING:
    from rq_dlq._work import Step, Steps
    from rq_dlq.client.broker import Broker


def asked(step: Step) -> Steps[Any]:
    """One step and its result."""
    return (yield step)


def ask(*parts: bytes | str) -> Steps[Any]:
    """One command and its reply."""
    return (yield Command(parts))


def remove(broker: Broker, queue: str) -> None:
    """Remove all keys of a queue, and its namespace, which must have no other queue."""
    namespace = broker.settings.namespace
    keys = _keys.QueueKeys(namespace, queue)
    senders = broker._connected().everywhere(lambda: _matching(keys.sender("*")))
    broker._run(ask(b"DEL", *keys.by_name.values(), *(key for node in senders.values() for key in node)))
    broker._run(ask(b"DEL", _keys.queues(namespace)))


def _matching(pattern: str) -> Steps[list[bytes]]:
    """The keys of a server that match."""
    found: list[bytes] = []
    cursor = b"0"
    while True:
        cursor, page = yield from ask(b"SCAN", cursor, b"MATCH", pattern)
        found += page
        if int(cursor) == 0:
            return found
