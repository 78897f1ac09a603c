"""The callers in this process that wait for messages to end, and the work of their listener."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rq_dlq.core.results import calls
from rq_dlq.core.results.calls import ResultEnd
from rq_dlq.core.steps.step import CHUNK, chunks
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.results.calls import Found, Meant
    from rq_dlq.core.steps.step import Steps

LOOK_EVERY = 1.0  # seconds; the longest delay after a lost notification


class Waiter(NamedTuple):
    """A waiting caller, and what it must do.

    Attributes:
        future: receives the end of the message.
        starts: the process has no listener yet, so the caller must start one.
        tell: the channel on which to notify the listener; empty: the listener polls soon anyway.
    """

    future: Future[ResultEnd]
    starts: bool
    tell: str


@dataclass(eq=False, slots=True)
class _Expected:
    keys: QueueKeys
    meant: Meant
    callers: list[Future[ResultEnd]] = field(default_factory=list["Future[ResultEnd]"])
    last: Found | BrokerUnavailable | BrokerRefused | None = (
        None  # the result of the last poll; None: there was no poll yet
    )


class Waiting:
    """The waiting callers of a broker, by the channels of their messages; thread-safe.

    One listener serves all callers: it subscribes to the channels, and polls every second, when a
    subscription has begun, and when a notification does not tell which of the messages with an id has ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._process = this_process()
        self._messages: dict[str, dict[int, _Expected]] = {}  # by channel, then by birth
        self._begun: set[str] = set()  # channels to poll now, since a subscription has begun
        self._own = ""  # the channel that announces a new caller; empty: no listener
        self._rests = False  # the listener must be notified of new callers

    def add(self, keys: QueueKeys, meant: Meant) -> Waiter:
        """Register a caller that waits for a message."""
        with self._lock:
            if self._process != this_process():  # a forked child has no waiting callers
                self._forget()
            future, of_id = Future[ResultEnd](), self._messages.setdefault(keys.result(meant.id), {})
            message = of_id.setdefault(meant.birth, _Expected(keys, meant))
            message.callers.append(future)
            starts, tell = not self._own, self._own if self._rests and len(message.callers) == 1 else ""
            self._own = self._own or keys.heard(secrets.token_hex(6))
            self._rests = self._rests and not tell
            return Waiter(future, starts, tell)

    def remove(self, keys: QueueKeys, meant: Meant, future: Future[ResultEnd]) -> Found | None:
        """Unregister a caller; returns the result of the last poll, None: there was no poll yet.

        Raises:
            BrokerUnavailable, BrokerRefused: the last poll failed.
        """
        with self._lock:
            channel = keys.result(meant.id)
            message = self._messages.get(channel, {}).get(meant.birth)
            if message is not None and future in message.callers:
                message.callers.remove(future)
                if not message.callers:
                    self._take(channel, meant.birth)
        last = message.last if message else None
        if isinstance(last, Exception):
            raise type(last)(*last.args) from last
        return last

    def _take(self, channel: str, birth: int) -> _Expected:
        """Remove a message, with its callers."""
        of_id = self._messages[channel]
        message = of_id.pop(birth)
        if not of_id:
            del self._messages[channel]
        return message

    # For the listener

    def channels(self) -> frozenset[str]:
        """The channels to subscribe to; empty: no caller waits any more, so the listener ends."""
        with self._lock:
            self._rests = bool(self._messages)
            if not self._messages:
                self._own = ""
                return frozenset()
            return frozenset((self._own, *self._messages))

    def end(self) -> None:
        """Note that the listener has ended, for any reason; the next caller starts another one."""
        with self._lock:
            self._own, self._rests = "", False

    def subscribed(self, channel: str) -> None:
        """Note that a subscription has begun: ends that were published earlier must be polled."""
        self._begun.add(channel)

    def heard(self, channel: str, ended: bytes) -> None:
        """Handle a published end: callers that wait for another message with this id go on waiting."""
        end = calls.published(ended)
        with self._lock:
            births = self._messages.get(channel, {}).keys()
            over = [self._take(channel, birth) for birth in (0, end.birth) if birth in births]
            if channel in self._messages:  # version 0.1.0 does not say whose end it is
                self._begun.add(channel)
        for message in over:
            _tell(message, end)

    def look(self, *, every: bool) -> Steps[bool]:
        """Poll the ends of messages: of all, or of those whose subscription has begun.

        Returns:
            Whether a poll found an end that was not received, although the subscription had begun before.
        """
        with self._lock:
            begun, self._begun = self._begun, set()
            looked = [
                (name, message)
                for name, of_id in self._messages.items()
                if every or name in begun
                for message in of_id.values()
            ]
        missed, queues = False, dict[Any, list[tuple[str, _Expected]]]()
        for name, message in looked:
            queues.setdefault(message.keys, []).append((name, message))
        for keys, messages in queues.items():
            for part in chunks(messages, CHUNK):
                try:
                    found = yield calls.result(keys, [message.meant for _, message in part])
                except (BrokerUnavailable, BrokerRefused) as error:  # raised when the wait ends
                    for _, message in part:
                        message.last = error
                    continue
                for (name, message), end in zip(part, found, strict=True):
                    message.last = end
                    if isinstance(end, ResultEnd):
                        missed = missed or name not in begun
                        self._over(name, message, end)
        return missed

    def _over(self, channel: str, message: _Expected, end: ResultEnd) -> None:
        """Handle an end that a poll found."""
        with self._lock:
            if self._messages.get(channel, {}).get(message.meant.birth) is message:
                self._take(channel, message.meant.birth)
        _tell(message, end)


def _tell(message: _Expected, end: ResultEnd) -> None:
    for future in message.callers:
        if future.set_running_or_notify_cancel():
            future.set_result(end)
