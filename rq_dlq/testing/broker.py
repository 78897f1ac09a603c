"""The broker for tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import rq_dlq.asyncio
from rq_dlq._keys import QueueKeys
from rq_dlq.client.broker import Broker
from rq_dlq.core.choosing.choice import reason_of
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.step import MOST
from rq_dlq.core.upkeep import upkeep
from rq_dlq.core.upkeep.maintain import maintain
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.failure import moment
from rq_dlq.worker import Worker

if TYPE_CHECKING:
    from collections import Counter
    from datetime import datetime

    import pytest

    from rq_dlq.client.delivery import Delivery
    from rq_dlq.client.queue import Queue
    from rq_dlq.client.task import Task
    from rq_dlq.testing.faults import Faults
    from rq_dlq.testing.server import Server
    from rq_dlq.values.message import DeadLetter

    AnyQueue = Queue[Any] | rq_dlq.asyncio.Queue[Any]
    AnyTask = Task[..., Any] | rq_dlq.asyncio.Task[..., Any]

OUTSIDE = ContextVar("rq_dlq_outside_of_handlers", default=False)
"""Set inside `inline`, and so in all tasks started there, but not in the threads of handlers."""
DOES = {"ticks": "fired", "redriving": "redriven"}  # by index: the maintenance step that its entries need
SHOWN = 10  # how many dead letters a failed assertion shows


class TestBroker(Broker):
    """A broker on an empty server, whose clock only moves when the test moves it.

    Attributes:
        faults: the faults to inject.
    """

    __test__ = False  # not a test class

    def __init__(self, server: Server, faults: Faults, patch: pytest.MonkeyPatch) -> None:
        super().__init__(server.url)
        self.faults = faults
        self._server, self._clock = server, server.clock
        self._patch = patch

    @property
    def now(self) -> datetime:
        """The server's time (UTC)."""
        return moment(self._clock.now)

    def advance(self, span: Duration) -> None:
        """Advance the clock, and run the maintenance that becomes due.

        Schedules send their messages for this time, and redrives that no process waits for continue.

        Raises:
            InvalidDuration: it is not a duration.
        """
        end = self._clock.now + milliseconds(span, name="span")
        queues = self._queues()
        redriven = set(queues)  # without queues whose redrives do not wait for the clock
        while True:
            due = [
                (head, index, keys)
                for index, whose in (("ticks", queues), ("redriving", redriven))
                for keys, head in self._heads(index, whose).items()
                if head <= end
            ]
            if not due:
                break
            head, index, keys = min(due, key=itemgetter(0))
            self._clock.set(max(self._clock.now, int(head)))
            if not self._run(upkeep.step(DOES[index], keys, b"", MOST)) and index == "redriving":
                redriven.remove(keys)
        self._clock.set(end)

    def _queues(self) -> list[QueueKeys]:
        names = (key.decode() for key in self._server.client.scan_iter("*:queues"))
        return [
            QueueKeys(name.removesuffix(":queues"), family.decode())
            for name in names
            for family in self._server.client.smembers(name)
        ]

    def _heads(self, index: str, queues: Iterable[QueueKeys]) -> dict[QueueKeys, float]:
        """When the first entry of an index is due, by queue; queues without an entry are left out."""
        heads = {keys: self._run(self._step(queue_calls.first_score(keys, index))) for keys in queues}
        return {keys: head for keys, head in heads.items() if head is not None}

    def drain(self, queue: AnyQueue | AnyTask) -> Counter[str]:
        """Run the queue's handler, or its tasks, like a worker, until no message is ready.

        Errors of the handler are not raised: the policy is applied. `drain` does not wait for later
        redeliveries: advance the clock, and drain again.

        Args:
            queue: a queue or a task, blocking or async.

        Returns:
            The number of deliveries by outcome: acked, redelivered, dead, …

        Raises:
            ConfigurationError: its broker object has no handler for the queue, or this is not a queue or a
                task.
        """
        queue = _queue_of(queue, handled=True)
        worker = Worker(queue._broker, until="empty", queues={queue.name: None})
        worker.run()
        return worker.tally.counts

    def assert_dead(
        self, queue: AnyQueue | AnyTask, count: int | None = None, reason: str | None = None
    ) -> list[DeadLetter[Any]]:
        """Assert that the queue has dead letters, and return them, the oldest first.

        Args:
            queue: a queue or a task, blocking or async.
            count: the exact number; None: at least one.
            reason: why they died: exhausted, poison, unprocessable or expired.

        Raises:
            AssertionError: the dead letters differ; the text lists them.
            ConfigurationError: this is not a queue or task.
            InvalidInput: there is no such reason.
        """
        queue, reason = _queue_of(queue), reason_of(reason)
        core = queue._core
        own = Broker(settings=queue._broker.settings).queue(queue.name, type=core.codec.type)
        dead = [*own.dlq.browse(limit=None), *own.expired.browse(limit=None)]
        found = [letter for letter in dead if reason in {None, letter.reason}]
        if len(found) != count if count is not None else not found:
            wanted = f"{'dead letters' if count is None else f'{count} dead'} of {queue.name!r}"
            why = f" by reason {reason!r}" if reason else ""
            told = [f"  {one.id}: {one.reason} after {one.attempt}: {one.cause}" for one in dead[:SHOWN]]
            message = "\n".join(
                [f"expected {wanted}{why}, found {len(found)} of {len(dead)}; {own.stats()}", *told]
            )
            raise AssertionError(message)
        return found

    def crash(self, delivery: Delivery[Any] | rq_dlq.asyncio.Delivery[Any]) -> None:
        """Simulate the death of a delivery's consumer: advance the clock until its lease has expired."""
        ends = int(delivery.lease_until.timestamp() * 1000)
        self._clock.set(max(self._clock.now, ends) + 1)
        self._run(maintain(delivery._queue._core))

    @contextmanager
    def inline(self) -> Generator[None]:
        """Run the handlers of a queue within each `send` and `send_many` to it, before it returns.

        Messages that a handler sends are also handled if the same broker object has a handler for them;
        otherwise they stay in their queue. Later redeliveries are not awaited.

        A send from outside a handler raises ConfigurationError, and sends nothing, if its broker object has
        no handler for the queue. asyncio tasks may send concurrently; a send by a test's own thread while a
        handler runs counts as a send by the handler.
        """
        inline = _Inline(self.drain)
        with self._patch.context() as patch:
            for names, then in ((rq_dlq, inline.blocking), (rq_dlq.asyncio, inline.awaiting)):
                for sender, verb in ((names.Queue, "send"), (names.Queue, "send_many"), (names.Task, "send")):
                    patch.setattr(sender, verb, then(getattr(sender, verb)))
            OUTSIDE.set(True)
            yield


class _Inline:
    """Sends that return after their handlers. Messages that a handler sends are handled after it ends."""

    def __init__(self, drain: Callable[[AnyQueue], Counter[str]]) -> None:
        self._drain = drain
        self._running = threading.Lock()

    def blocking(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a blocking send."""

        @wraps(send)
        def then_handle(sender: Any, *args: Any, **options: Any) -> Any:
            awaited = self._is_awaited()
            queue = _queue_of(sender, handled=awaited)
            sent = send(sender, *args, **options)
            if awaited:
                self._handle(queue)
            return sent

        return then_handle

    def awaiting(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap an async send."""

        @wraps(send)
        async def then_handle(sender: Any, *args: Any, **options: Any) -> Any:
            awaited = self._is_awaited()
            queue = _queue_of(sender, handled=awaited)
            sent = await send(sender, *args, **options)
            if awaited:
                await asyncio.to_thread(self._handle, queue)
            return sent

        return then_handle

    def _is_awaited(self) -> bool:
        return OUTSIDE.get() or not self._running.locked()

    def _handle(self, queue: AnyQueue) -> None:
        with self._running:
            while any(self._has_handled(other) for other in _queues_with_handlers(queue)):
                pass

    def _has_handled(self, queue: AnyQueue) -> bool:
        return Context().run(self._drain, queue).total() > 0


def _queues_with_handlers(queue: AnyQueue) -> list[AnyQueue]:
    return [handler.queue for handler in queue._broker._handlers]


def _queue_of(given: AnyQueue | AnyTask, *, handled: bool = False) -> AnyQueue:
    """The queue, or the task's queue; `handled`: it must have a handler."""
    queue = given._queue if isinstance(given, rq_dlq.Task | rq_dlq.asyncio.Task) else given
    known: object = queue  # callers without type checking also get a clear error
    if not isinstance(known, rq_dlq.Queue | rq_dlq.asyncio.Queue):
        message = (
            f"{shown(given)} is not a queue or a task: pass what broker.queue() or @broker.task returned"
        )
        raise ConfigurationError(message)
    if handled and all(handler.queue.name != queue.name for handler in queue._broker._handlers):
        message = (
            f"the broker object of queue {queue.name!r} has no handler for it: import the module with the "
            "handler; if that module has its own broker object, pass its queue to drain()"
        )
        raise ConfigurationError(message)
    return queue
