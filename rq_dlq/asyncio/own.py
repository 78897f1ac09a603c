"""The awaiting colour's own part: running handlers, open loops, and sending from async iterables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from rq_dlq._redis import AsyncConnections  # imported here: a later import would block the event loop
from rq_dlq.client.base import BrokerBase
from rq_dlq.client.handlers import HandledQueue
from rq_dlq.core.claiming.cut_off import cuts_off_claim
from rq_dlq.core.sending import send
from rq_dlq.core.steps.step import CHUNK, WINDOW, Steps
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.errors.guesses import Answering, part_of
from rq_dlq.values.cached import cached_property
from rq_dlq.values.runner import runner_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
    from concurrent.futures import Future

    from rq_dlq._redis import Retries
    from rq_dlq._redis.waiting import Waiting
    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.core.claiming.consume import Consuming
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.core.sending.send import WithResult
    from rq_dlq.values.message import Message
    from rq_dlq.values.sent import Sent

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger("rq_dlq")


async def to_its_end(make: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Await a coroutine to its end; a cancellation of this task or generator is raised afterwards.

    When asyncio.run ends, it cancels all tasks, including the one that runs this coroutine, which then runs
    again.
    """
    cut_off: BaseException | None = None
    again = False
    while True:
        ending = asyncio.create_task(make())
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except (asyncio.CancelledError, GeneratorExit) as error:
                cut_off = error
        if again or not ending.cancelled():
            break
        again = True
    if cut_off is None:
        ending.result()
    else:
        if not ending.cancelled() and isinstance(failure := ending.exception(), Exception):
            logger.warning("the call that a cancellation interrupted: %s", failure)
        raise cut_off


_LISTENING = set[asyncio.Task[None]]()  # the event loop keeps only weak references


def listen(connections: AsyncConnections, waiting: Waiting) -> None:
    """Start a task that listens for the waiting callers, until none is left."""
    listening = asyncio.create_task(connections.listen(waiting))
    _LISTENING.add(listening)
    listening.add_done_callback(_LISTENING.discard)


async def outcome_of(future: Future[R], seconds: float) -> R | None:
    """The result of a future within this time; None: no result yet."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        return None


def _cancellation(error: BaseException) -> BaseException | None:
    """The error that interrupts a loop; None: a `break`, after which Python closes the loop."""
    if not isinstance(error, GeneratorExit):
        return error
    task = asyncio.current_task()
    return asyncio.CancelledError() if task is not None and task.cancelling() else None


@part_of("Broker")
class OwnBroker(BrokerBase):
    """A broker that runs its handlers, and ends its open loops when it is closed."""

    _connections: AsyncConnections | None = None

    def _open(self, retries: Retries) -> AsyncConnections:
        return AsyncConnections(retries=retries, **self._connection_settings())

    @cached_property
    def _loops(self) -> WeakKeyDictionary[Consuming[Any], asyncio.Lock]:
        """The started loops of `Queue.consume`, each with the lock that is held while it is ended."""
        return WeakKeyDictionary()

    if TYPE_CHECKING:  # of the broker, in either colour

        async def _leave(
            self, queue: QueueState[Any], steps: Steps[R], error: BaseException | None
        ) -> R | None: ...

    async def _end_loop(self, consuming: Consuming[Any], cause: BaseException | None = None) -> None:
        """End a loop, or wait until it has ended; `cause` is the error that interrupts it, if any."""
        async with self._loops.setdefault(consuming, asyncio.Lock()):
            if self._connections is None:  # the loop has claimed nothing
                return
            closed = consuming.over  # by `close`, which did not wait for the running step
            leaving = consuming.leave(cut_off=cuts_off_claim(cause))
            await self._leave(consuming._queue, leaving, cause)
            if closed:
                await self._connections.close()

    async def close(self) -> None:
        """End the open loops of `Queue.consume`, then close the connections; the next use opens new ones.

        Unsettled deliveries from `claim` are released if the program still refers to them. A loop that was
        left by `break` or an error stays open until Python closes its generator, a little later;
        `contextlib.aclosing` closes it immediately. The connections of a pool that was passed in stay open.

        Raises:
            LeaseLost, BrokerUnavailable, BrokerRefused: ending a loop failed; the connections are closed.

        Examples:
            >>> await broker.close()
        """
        try:
            ended = await asyncio.gather(*map(self._end_loop, tuple(self._loops)), return_exceptions=True)
            if self._connections is not None:
                with suppress(BrokerUnavailable):  # then the leases expire
                    await self._connections.run_once(self._hand_claims.give_back())
        finally:
            if self._connections is not None:
                await self._connections.close()
        for error in ended:
            if error is not None:
                raise error

    async def run(self, *, burst: bool = False) -> None:
        """Run the handlers and tasks until SIGTERM or SIGINT; `async def` ones run in this event loop.

        The first signal lets running calls finish; a second one cancels them, and so does a cancellation. The
        worker handles these signals while it runs: do not await this next to a web server in one process.

        Args:
            burst: stop when no message is ready in any of the queues and no call is running, which could send
                one; messages of a paused queue are left.

        Raises:
            ConfigurationError: no queue has a handler.
            RqDlqError: a consumer or the lifespan failed; its error is in the log.

        Examples:
            >>> await broker.run(burst=True)
        """
        await runner_of(self, burst=burst).run_in_loop()


class OwnQueue(Answering, HandledQueue[T]):
    """A queue that also takes messages from async iterables."""

    _broker: Broker
    _core: QueueState[T]

    async def _consume(self, consuming: Consuming[Delivery[T]]) -> AsyncGenerator[Delivery[T]]:
        self._broker._loops[consuming] = asyncio.Lock()
        cause: BaseException | None = None
        try:
            while (delivery := await self._broker._run(consuming.step())) is not None:
                yield delivery
        except BaseException as error:
            cause = _cancellation(error)
            raise
        finally:
            try:
                await to_its_end(lambda: self._broker._end_loop(consuming, cause))
            except RqDlqError as failure:
                if not consuming.is_dropped:
                    raise
                logger.warning("%s: ending a loop that was not closed failed: %s", self._core.name, failure)

    async def _send_all(
        self,
        bodies: Iterable[T | Message[T]] | AsyncIterable[T | Message[T]],
        options: SendOptions,
        with_result: WithResult,
    ) -> list[Sent]:
        """Run the steps of `send_many`: once, or for each window of an async iterable."""
        if not isinstance(bodies, AsyncIterable):
            return await self._broker._run(send.send(self._core, bodies, options, with_result))
        ids: list[Sent] = []
        window: list[T | Message[T]] = []
        try:
            async for body in bodies:
                window.append(body)
                if len(window) == CHUNK * WINDOW:
                    ids += await self._broker._run(send.send(self._core, window, options, with_result))
                    window = []
            return ids + await self._broker._run(send.send(self._core, window, options, with_result))
        except RqDlqError as error:
            if ids:
                error.add_note(f"{len(ids):,} messages before it were sent")
            raise
