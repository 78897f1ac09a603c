"""Async handlers: one event loop that claims, runs calls concurrently, and settles in batches."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.asyncio.own import to_its_end
from rq_dlq.core.steps.riding import riding
from rq_dlq.worker.async_calls import AsyncCalls
from rq_dlq.worker.async_settling import AsyncSettling
from rq_dlq.worker.async_tasks import AsyncTasks
from rq_dlq.worker.claiming import Pace
from rq_dlq.worker.consumer import STUCK_AFTER, Consumer
from rq_dlq.worker.holding import RETRY_AFTER
from rq_dlq.worker.leases import CHECK, AsyncLeases
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.asyncio.delivery import Delivery
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.client.handlers import Handler
    from rq_dlq.worker.async_tasks import Rest
    from rq_dlq.worker.shared import Shared

LOOK = 1.0  # seconds between two checks of the event loop


class AsyncConsumer(Consumer["Delivery[Any]"]):
    """Runs one async handler, with up to `concurrency` concurrent calls, in the worker's event loop.

    Args:
        broker: the queue's broker; only this object uses and closes it.
    """

    def __init__(
        self, handler: Handler, queue: Queue[Any], concurrency: int, broker: Broker, shared: Shared
    ) -> None:
        super().__init__(handler, queue, shared)
        self.concurrency = concurrency
        self._broker, self._loop = broker, shared.loop
        self._pace = Pace(at_once=concurrency)
        create = partial(self._loop.create_task, name=self._thread.name)
        self._tasks = AsyncTasks(self._unstarted, self._begin, self._may_begin, concurrency, create)
        begin, run = self._tasks.begin, broker._run
        self._acks = AsyncSettling(
            self._done, self.settling.settle_done, self._ready, run, shared.stop,
            enough=shared.finished.are_enough, then=begin,
        )  # fmt: skip
        self._calls = AsyncCalls(
            handler, self._observers, shared.stop, settles=self._acks.hold_up_running, ended=self._settle
        )
        self._leases = AsyncLeases(self, shared, handler.timeout, run, begin)
        self._over: dict[tuple[float, bool], int] = {}  # calls that ended in this iteration of the event loop
        self._not_begun: list[Delivery[Any]] = []  # their tasks have begun, but their leases may have expired
        self._resting = False  # it waits until there is capacity to claim
        self._ending = False  # no more calls begin
        self._ended = asyncio.Event()  # a call has ended
        self._last_end = 0.0  # monotonic seconds

    def _consume(self) -> None:
        self._leases.expect()
        consuming = asyncio.run_coroutine_threadsafe(self.consume(), self._loop)
        while not wait([consuming], LOOK).done:
            if not self._loop.is_running():
                raise RuntimeError("the event loop of the worker broke: did a handler close its descriptors?")
        consuming.result()

    async def consume(self) -> None:
        """Claim and run until the stop, then settle the rest; leases are extended all the time."""
        self._leases.turn()
        tending = asyncio.create_task(self._leases.keep())
        self._acks.context = self._context = copy_context()  # no task sees another's variables
        try:
            await self._claim_and_finish()
        finally:
            tending.cancel()
            await asyncio.wait([tending], timeout=LOOK)  # it must not connect while the broker closes
            self._leases.rest()
            await self._broker.close()

    async def _claim_and_finish(self) -> None:
        try:
            await self._claim_and_begin()
        except BaseException:
            self._stop.break_off()  # immediately: running calls may take long
            raise
        finally:
            self._ending = True
            await self._finish()

    async def _finish(self) -> None:
        """Wait for the running calls, and settle all calls, until the worker gives up on Redis."""
        await self._broker._run(self.holding.release_unstarted())
        await self._acks.all()
        while tasks := [task for task, _ in self._tasks.running.values() if task and not task.done()]:
            await asyncio.wait(tasks)
        await self._acks.all()
        while self._unstarted and not self._stop.giving_up.is_set():
            await asyncio.sleep(RETRY_AFTER)
            await self._broker._run(self.holding.release_unstarted())
        await self._broker._run(self.holding.give_back())

    async def _claim_and_begin(self) -> None:
        claimer, permit = self.claimer, self.holding.permit
        while not self._stop.finishing.is_set():
            await self._ready()
            wanted = self._wanted
            ahead = bool(self._unstarted) or len(self._tasks.running) >= self.concurrency
            if wanted == 0:  # the next claim also acks calls that end in the meantime
                self._resting = True
                await self._one_ends(CHECK)
                self._resting = False
                continue
            claim = claimer.claim(min(wanted, self._pace.most), waits=not ahead)
            deliveries = await self._broker._run(riding(self._acks.steps(), claim))
            if claimer.pause:
                self._acks.later()
                await asyncio.sleep(claimer.pause)
            if deliveries:
                self._unstarted.extend(deliveries)
                self._tasks.begin()
            elif permit.passed:
                await self._one_ends(permit.pause)
            elif ahead:
                await self._one_ends(CHECK)
            elif await self._broker._run(claimer.over(self.holds[0])):
                break

    async def _ready(self) -> None:
        """Open a connection unless one is idle, so that settlements are sent without waiting for one."""
        await (await self._broker._connected()).ready(self._key)

    @property
    def _wanted(self) -> int:
        """How many messages to claim: for calls that can begin, and ahead if few claimed messages are left.

        If no call has ended lately, the pace is outdated, and no messages are claimed ahead.
        """
        ahead = 0 if time.monotonic() - self._last_end > self._pace.soon else self._pace.ahead
        if len(self._unstarted) > ahead // 2:
            return 0
        return max(0, self.concurrency + ahead - len(self._tasks.running) - len(self._unstarted))

    def _may_begin(self) -> bool:
        """Whether a call may begin now."""
        ends = self._ending or self._stop.finishing.is_set() or self._acks.begins
        return not ends and self.holding.doubt is self.holding.checked

    async def _one_ends(self, seconds: float | None) -> None:
        """Wait until a call ends, or for this time (seconds; None: no limit)."""
        self._acks.later()
        self._ended.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    def _end(self) -> None:
        """Handle the end of calls, once for all that ended in the same iteration of the event loop."""
        now = time.monotonic()
        for (began, waited), calls in self._over.items():  # nearly always of one beginning
            side_by_side = 1 if waited else self.concurrency / calls  # what never waits runs alone
            self._pace.note((now - began) * side_by_side, calls)
        self._over.clear()
        self._tasks.begin()
        if not self._resting or self._wanted > 0:
            self._ended.set()

    def _begin(self, delivery: Delivery[Any]) -> Rest:
        """Begin a call, in the task of its delivery."""
        now = time.monotonic()
        self._shared.watch.turn(now)
        if self.holding.are_over(now):  # another call has blocked the event loop for too long
            self._not_begun.append(delivery)
            if len(self._not_begun) == 1:
                self._loop.call_soon(self._take_back, context=self._context)
            return None
        if delivery._time_to_live(now) <= 0:  # noqa: SLF001 - not public
            release = partial(self.holding.release_outlived, [delivery])
            return self._finally(delivery, lambda: self._broker._run(release()))
        return self._calls.begin(delivery, now)

    def _settle(self, delivery: Delivery[Any], error: BaseException | None, waited: bool) -> Rest:  # noqa: FBT001 - a callback
        """Settle a call that has ended, with others if possible."""
        self._last_end = ended = time.monotonic()  # first: `tend` looks at it
        if not self.settling.finish(delivery, error, ended):
            return self._finally(delivery, lambda: self._settle_alone(delivery, error))
        self._note_end(delivery, waited=waited)
        self._acks.later()
        return None

    async def _finally(self, delivery: Delivery[Any], make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await to_its_end(make)  # the handler may have cancelled the task
        except Exception:  # noqa: BLE001 - it is logged
            logger.exception("%s: a call could not be settled", self.queue.name)
        finally:
            self.holding.permit.end_of([delivery])
            self._note_end(delivery, waited=True)

    def _note_end(self, delivery: Delivery[Any], *, waited: bool) -> None:
        """Note that a call has ended; `_end` follows, once for all that end in the same iteration."""
        if not self._over:
            self._loop.call_soon(self._end, context=self._context)
        of = self._tasks.running.pop(delivery)[1], waited
        self._over[of] = self._over.get(of, 0) + 1

    def _take_back(self) -> None:
        """Put back calls that had a task but have not begun, if their messages are still held."""
        for delivery in self._not_begun:
            del self._tasks.running[delivery]
        self.holding.put_back(self._not_begun)
        self._not_begun.clear()
        self._ended.set()

    async def _settle_alone(self, delivery: Delivery[Any], error: BaseException | None) -> None:
        began = time.monotonic()
        while not await self._broker._run(self.settling.settle(delivery, error, began)):
            if self._stop.giving_up.is_set():
                self.settling.leave(delivery, error)
                break
            await asyncio.sleep(RETRY_AFTER)  # no other suspect may run in that time

    # From the worker's thread

    @property
    def _kept(self) -> list[Delivery[Any]]:
        return [*self.held, *self.running] if self._leases.need_help else []

    @property
    def running(self) -> list[Delivery[Any]]:
        """The deliveries whose calls are running or being settled."""
        return [*self._tasks.running]

    def runs(self, delivery: Delivery[Any]) -> bool:
        """Whether its handler is running."""
        return delivery in self._calls.running

    def name_of(self, task: asyncio.Task[Any]) -> str:
        """The call that this task runs; empty: it does not belong to this consumer."""
        of = next((one for one, its in [*self._calls.running.items()] if its is task), None)
        return "" if of is None else self.called(of)

    def cut_short(self) -> None:
        """Let the event loop cancel all calls after a second signal; it also applies their timeouts."""
        if self._stop.cancelling.is_set():
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._calls.cancel)

    def cut_cancelled(self, delivery: Delivery[Any]) -> None:
        """Let the event loop cancel the call."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._calls.cancel_one, delivery)

    def tend(self) -> None:
        """Release messages behind stuck calls, and ack calls that ended before the event loop was blocked."""
        now, tending = time.monotonic(), self._shared.tending
        self._say_late([(one, began) for one, (_, began) in [*self._tasks.running.items()]])
        if self._waits(now) > STUCK_AFTER and self.holding.may_retry:
            tending.run(self.holding.release_unstarted())
        if self._done and now - self._last_end > STUCK_AFTER and self.holding.may_retry:
            self.settle_finished(tending)
