"""The server that a command talks to below the level of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq import _keys
from rq_dlq._calls import Command

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq._work import Step, Steps


def asked(step: Step) -> Steps[Any]:
    """One step and what came of it."""
    return (yield step)


def ask(*parts: bytes | str) -> Steps[Any]:
    """One command and its reply."""
    return (yield Command(parts, lambda reply, _: reply))


def remove(connections: Connections, namespace: str, queue: str) -> None:
    """Remove a queue with all that it ever held, and its namespace, where no other queue is."""
    connections.run(ask(b"DEL", *_keys.QueueKeys(namespace, queue).by_name.values()))
    connections.run(ask(b"DEL", _keys.queues(namespace)))
