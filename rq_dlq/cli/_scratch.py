"""What a command leaves that tries things out on a server, in a namespace of its own: nothing."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from rq_dlq._calls import Command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq._work import Steps
    from rq_dlq.client.broker import Broker


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP, as when the terminal is closed, interrupt this program like Ctrl-C."""
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
        yield Command((b"DEL", key))
