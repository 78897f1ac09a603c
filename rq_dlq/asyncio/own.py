"""The awaiting colour's own part: running handlers, open loops, and messages from async iterables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from rq_dlq._redis import AsyncConnections  # at once: later it would hold up the event loop
from rq_dlq.client.base import BrokerBase
from rq_dlq.client.handlers import HandledQueue
from rq_dlq.core.claiming.cut_off import is_cut_off
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
    from rq_dlq.values.message import Message
    from rq_dlq.values.sent import Sent

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger("rq_dlq")


async def to_its_end(make: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Await a coroutine to its end; what happens to this task or generator meanwhile is raised afterwards.

    At its end asyncio.run cancels all tasks, also the one that runs this coroutine: then it is made again.
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
            logger.warning("what was under way when this was cut off: %s", failure)
        raise cut_off


_LISTENING = set[asyncio.Task[None]]()  # an event loop alone would forget them


def listen(connections: AsyncConnections, waiting: Waiting) -> None:
    """Have a task listen for those who wait, until nobody does."""
    listening = asyncio.create_task(connections.listen(waiting))
    _LISTENING.add(listening)
    listening.add_done_callback(_LISTENING.discard)


async def outcome_of(future: Future[R], seconds: float) -> R | None:
    """What a future gets within this time; None: nothing."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        return None


def _cancellation(error: BaseException) -> BaseException | None:
    """What cuts off a loop that ends by this error; None: a `break`, after which Python closes it, too."""
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
        """The loops of `Queue.consume` that have begun; their locks are held while they are ended."""
        return WeakKeyDictionary()

    if TYPE_CHECKING:  # the broker's, in either colour

        async def _leave(
            self, queue: QueueState[Any], steps: Steps[R], error: BaseException | None
        ) -> R | None: ...

    async def _end_loop(self, consuming: Consuming[Any], cause: BaseException | None = None) -> None:
        """End a loop, or wait until it is ended; by the error that cuts it off, if one does."""
        async with self._loops.setdefault(consuming, asyncio.Lock()):
            if self._connections is None:  # it has claimed nothing
                return
            closed = consuming.over  # by `close`, which did not wait for the step that was under way
            leaving = consuming.leave(cut_off=is_cut_off(cause))
            await self._leave(consuming._queue, leaving, cause)
            if closed:
                await self._connections.close()

    async def close(self) -> None:
        """End the open loops of `Queue.consume`, then close the connections; the next use opens new ones.

        What was claimed by hand and not settled is released, if you still have its deliveries. A loop that
        was left by `break` or an error is open until Python closes its generator, a little later;
        `contextlib.aclosing` closes it at once. The connections of a pool that was passed in stay open.

        Raises:
            LeaseLost, BrokerUnavailable, BrokerRefused: of the end of a loop; the connections are closed.

        Examples:
            >>> await broker.close()
        """
        try:
            ended = await asyncio.gather(*map(self._end_loop, tuple(self._loops)), return_exceptions=True)
            if self._connections is not None:
                with suppress(BrokerUnavailable):  # then the leases end by themselves
                    await self._connections.run_once(self._hand_claims.give_back())
        finally:
            if self._connections is not None:
                await self._connections.close()
        for error in ended:
            if error is not None:
                raise error

    async def run(self, *, burst: bool = False) -> None:
        """Run the handlers and tasks until SIGTERM or SIGINT, those of `async def` in this event loop.

        The first signal lets running calls finish, a second one cancels them; so does a cancellation. The
        signals are the worker's while it runs: do not await this beside a web server in one process.

        Args:
            burst: stop when no message is ready in any of the queues.

        Raises:
            ConfigurationError: no queue has a handler.
            RqDlqError: a consumer or the lifespan failed; the log has its error.

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
                logger.warning("%s: the end of a loop that was dropped: %s", self._core.name, failure)

    async def _send_all(
        self, bodies: Iterable[T | Message[T]] | AsyncIterable[T | Message[T]], options: SendOptions
    ) -> list[Sent]:
        """Run the steps of `send_many`: once, or for each window of an async iterable."""
        if not isinstance(bodies, AsyncIterable):
            return await self._broker._run(send.send(self._core, bodies, options))
        ids: list[Sent] = []
        window: list[T | Message[T]] = []
        try:
            async for body in bodies:
                window.append(body)
                if len(window) == CHUNK * WINDOW:
                    ids += await self._broker._run(send.send(self._core, window, options))
                    window = []
            return ids + await self._broker._run(send.send(self._core, window, options))
        except RqDlqError as error:
            if ids:
                error.add_note(f"{len(ids):,} messages before it were sent")
            raise
