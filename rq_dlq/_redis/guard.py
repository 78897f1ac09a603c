"""Before a server takes messages in: can it still keep what the broker promises for them?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rq_dlq._redis.connection import socket_of
from rq_dlq._redis.exchange import conversation

if TYPE_CHECKING:
    from rq_dlq._redis.exchange import Commands, Exchange
    from rq_dlq._scripts import Scripts
    from rq_dlq.core.steps.step import Steps

PERIOD = 30.0  # seconds for which a look is good
TAKE_IN = ("send", "commit", "commit_job")  # the scripts whose caller is promised something for its messages


class Guard:
    """Looks at a server again, before it takes messages in: on each new connection, and twice a minute.

    A server that was restarted, or that took the place of another one, is reached by a new connection. So
    what a look has found holds for its connection alone, and a send goes through a connection that was
    looked at. Whatever only settles or reads messages is not held up.

    Args:
        check: steps that raise `BrokerRefused` where the server cannot keep the promise.
        scripts: as the server runs them.

    Attributes:
        clock: seconds; tests pass another one.
    """

    def __init__(self, check: Callable[[], Steps[object]], scripts: Scripts) -> None:
        self.clock = time.monotonic
        self._check, self._scripts = check, scripts
        self._guarded = frozenset(scripts[name].sha for name in TAKE_IN)
        # By socket, since a pool connects the same object again.
        self._good_until: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def due(self, connection: Any, commands: Commands) -> bool:
        """Whether to look before these commands."""
        for command in commands:
            if command[0] == b"EVALSHA" and command[1] in self._guarded:
                return self.clock() >= self._good_until.get(socket_of(connection), 0.0)
        return False

    def look(self, connection: Any) -> Exchange:
        """Look at the server at the end of this connection.

        Raises:
            BrokerRefused: it cannot keep the promise.
        """
        began = self.clock()
        yield from conversation(self._check(), self._scripts)
        self._good_until[socket_of(connection)] = began + PERIOD
