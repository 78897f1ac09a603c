"""Checks that a server still provides the broker's durability before it accepts messages.

The settings that durability "fsync" needs of a server may change while a broker uses it: a restart forgets a
CONFIG SET, an operator switches something off, a replica without a file is promoted. So with "fsync" and
"replicated" a broker checks the server not only before its first call but also before each `send`,
`send_limited`, `commit` or `commit_job` whose connection was not checked in the last 30 s. A restarted or
promoted server is always reached by a new connection, so a check holds for its connection alone, and the
message follows it on that connection: nothing can come between them. A server that fails is sent nothing,
and is checked again by the next send.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rq_dlq._redis.connection import socket_of
from rq_dlq._redis.exchange import conversation
from rq_dlq.core.steps.call import Run

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.core.steps.step import Steps

PERIOD = 30.0  # seconds for which a check is valid
TAKE_IN = frozenset(
    {"send", "send_limited", "commit", "commit_job"}
)  # the verbs whose callers rely on the durability


class Guard:
    """Checks a server again before it accepts messages: on each new connection, and twice a minute.

    A server that was restarted, or that replaced another one, is always reached by a new connection. So a
    check is valid only for its connection, and a send uses a checked connection. Calls that only settle or
    read messages are not delayed.

    Args:
        check: steps that raise `BrokerRefused` if the server cannot provide the durability.
        verbs: as this server runs them.

    Attributes:
        clock: seconds; tests pass another one.
    """

    def __init__(self, check: Callable[[], Steps[object]], verbs: Verbs) -> None:
        self.clock = time.monotonic
        self._check, self._verbs = check, verbs
        # By socket, since a pool reconnects the same connection object.
        self._good_until: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def due(self, connection: Any, commands: Commands) -> bool:
        """Whether a check is due before these commands."""
        for command in commands:
            if type(command[0]) is Run and command[0].verb in TAKE_IN:
                return self.clock() >= self._good_until.get(socket_of(connection), 0.0)
        return False

    def look(self, connection: Any) -> Exchange:
        """Check the server that this connection reaches.

        Raises:
            BrokerRefused: it cannot provide the durability.
        """
        began = self.clock()
        yield from conversation(self._check(), self._verbs)
        self._good_until[socket_of(connection)] = began + PERIOD
