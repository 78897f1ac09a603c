"""A scratch namespace on a server, which is removed afterwards."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from rq_dlq._redis.urls import masked
from rq_dlq.core.steps.call import Command
from rq_dlq.embedded import ensure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.cli._context import Context
    from rq_dlq.client.broker import Broker
    from rq_dlq.core.steps.step import Steps


def server_of(context: Context) -> str:
    """The URL of the server to use, which is also printed: --url, or that of the embedded server.

    $RQ_DLQ_URL is never used: it may be a production server.
    """
    if context.url is not None:
        context.output.say(f"on {masked(context.url)}")
        return context.url
    endpoint = ensure()
    unused = (
        "; $RQ_DLQ_URL is not used: to use that server, pass --url" if os.environ.get("RQ_DLQ_URL") else ""
    )
    slow = (
        ""
        if endpoint.durable
        else (", which is many times as slow as a server: to have one, install redis-server or valkey-server")
    )
    context.output.say(f"on the embedded {endpoint.backend}{slow}{unused}")
    return endpoint.url


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP (a closed terminal) interrupt this program like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def remove(broker: Broker) -> None:
    """Remove all keys of the broker's namespace."""
    found = broker._connected().everywhere(lambda: _keys(broker.settings.namespace))
    broker._run(_delete({key for keys in found.values() for key in keys}))


def _keys(namespace: str) -> Steps[list[bytes]]:
    """All keys of the namespace on one server."""
    found, cursor, pattern = list[bytes](), b"0", f"{namespace}:*"
    while True:
        cursor, page = yield Command((b"SCAN", cursor, b"MATCH", pattern))
        found += page
        if int(cursor) == 0:
            return found


def _delete(keys: Iterable[bytes]) -> Steps[None]:
    for key in keys:
        yield Command((b"DEL", key.decode()))
