"""Who waits in this process for what became of messages, and what the one that listens for all does."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rq_dlq.core.results import calls
from rq_dlq.core.results.results import is_over
from rq_dlq.core.steps.step import CHUNK, chunks
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.results.calls import Found
    from rq_dlq.core.steps.step import Steps

LOOK_EVERY = 1.0  # seconds; so much a wake that was lost costs


class Place(NamedTuple):
    """Where somebody waits, and what is to be done for it.

    Attributes:
        future: gets the end of the message.
        starts: nobody listens yet.
        tell: the channel of the one that listens and has to hear of this; empty: it will look anyway.
    """

    future: Future[bytes]
    starts: bool
    tell: str


@dataclass(eq=False, slots=True)
class _Message:
    keys: QueueKeys
    id: str
    callers: list[Future[bytes]] = field(default_factory=list["Future[bytes]"])
    last: Found | BrokerUnavailable | BrokerRefused | None = (
        None  # what the last look found; None: none was yet
    )


class Waiting:
    """The callers of one broker that wait, by the channels of their messages; safe with threads.

    One listens for all: it subscribes to the channels, and looks at what is there when a subscription has
    begun, and each second.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._process = this_process()
        self._messages: dict[str, _Message] = {}
        self._begun: set[str] = set()  # channels whose subscription has begun since the last look
        self._own = ""  # the channel by which a new caller is made known; empty: nobody listens
        self._rests = False  # who listens does not know of new callers until it is told

    def add(self, keys: QueueKeys, message_id: str) -> Place:
        """Wait for a message."""
        with self._lock:
            if self._process != this_process():  # a forked child waits for nothing
                self._forget()
            channel, future = keys.result(message_id), Future[bytes]()
            message = self._messages.setdefault(channel, _Message(keys, message_id))
            message.callers.append(future)
            starts, tell = not self._own, self._own if self._rests and len(message.callers) == 1 else ""
            self._own = self._own or keys.heard(secrets.token_hex(6))
            self._rests = self._rests and not tell
            return Place(future, starts, tell)

    def remove(self, keys: QueueKeys, message_id: str, future: Future[bytes]) -> Found | None:
        """Wait no longer; what the last look found, None: none was yet.

        Raises:
            BrokerUnavailable, BrokerRefused: it failed.
        """
        with self._lock:
            channel = keys.result(message_id)
            message = self._messages.get(channel)
            if message is not None and future in message.callers:
                message.callers.remove(future)
                if not message.callers:
                    del self._messages[channel]
        last = message.last if message else None
        if isinstance(last, Exception):
            raise type(last)(*last.args) from last
        return last

    # Of the one that listens

    def channels(self) -> frozenset[str]:
        """What it is to be subscribed to; empty: nobody waits any more, and it ends."""
        with self._lock:
            self._rests = bool(self._messages)
            if not self._messages:
                self._own = ""
                return frozenset()
            return frozenset((self._own, *self._messages))

    def end(self) -> None:
        """It has ended, for whatever reason; the next caller has another one listen."""
        with self._lock:
            self._own, self._rests = "", False

    def subscribed(self, channel: str) -> None:
        """A subscription has begun: what was published before is to be looked for."""
        self._begun.add(channel)

    def heard(self, channel: str, end: bytes) -> None:
        """Something was published."""
        with self._lock:
            message = self._messages.pop(channel, None)
        for future in message.callers if message else ():
            if future.set_running_or_notify_cancel():
                future.set_result(end)

    def look(self, *, every: bool) -> Steps[bool]:
        """Look what became of messages: of every one, or of those whose subscription has begun.

        Returns:
            Whether something was found of which nobody has heard, though the subscription had begun before.
        """
        with self._lock:
            begun, self._begun = self._begun, set()
            wanted = {name: one for name, one in self._messages.items() if every or name in begun}
        missed, queues = False, dict[Any, list[tuple[str, _Message]]]()
        for name, message in wanted.items():
            queues.setdefault(message.keys, []).append((name, message))
        for keys, messages in queues.items():
            for part in chunks(messages, CHUNK):
                try:
                    found = yield calls.result(keys, [message.id for _, message in part])
                except (BrokerUnavailable, BrokerRefused) as error:  # who waits is told when the wait is over
                    for _, message in part:
                        message.last = error
                    continue
                for (name, message), end in zip(part, found, strict=True):
                    message.last = end
                    if is_over(end):
                        missed = missed or name not in begun
                        self.heard(name, end)
        return missed
