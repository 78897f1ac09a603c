"""The tasks of concurrent calls.

A call that waits for something has a task for itself. Calls that wait for nothing run one after another in
one task, as a task costs 1.4 µs and its garbage, and such a call 0.2. Where several calls can begin, one
begins first. If it ends in the same turn of the event loop, its task takes the next; in the next turn each of
the others gets a task. A call that changed a context variable, cancelled its task or gave it a callback is
the last one there, so no call sees anything of another, except the state that a handler itself keeps by
`asyncio.current_task()`, and the task's name. Eager tasks (Python 3.12) would do the same; 3.11 has none. To
begin all at once where calls usually wait loses with 200 calls, as all of them then begin and end together.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from rq_dlq.asyncio.delivery import Delivery

    Rest: TypeAlias = Coroutine[Any, Any, None] | None
    """What is left of a call, to be awaited; None: it has ended."""

Call: TypeAlias = tuple[asyncio.Task[None] | None, float]
"""The task of a call, and when it began, monotonic seconds; None: its task is eager, and being made."""


class AsyncTasks:
    """Begins calls, with at most `most` running concurrently.

    Args:
        unstarted: the deliveries whose calls have not begun; another thread may take some.
        run: runs the call of a delivery until it ends or waits.
        may_begin: whether a call may begin now.
        create: makes a task.

    Attributes:
        running: the deliveries whose calls have begun; `run` removes each when its call has ended.
    """

    def __init__(
        self,
        unstarted: deque[Delivery[Any]],
        run: Callable[[Delivery[Any]], Rest],
        may_begin: Callable[[], bool],
        most: int,
        create: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._unstarted, self._run, self._may_begin = unstarted, run, may_begin
        self._most, self._create = most, create
        self._turn: object = None  # the loop's iteration in which calls share a task; None: it has ended
        self._stopped = False  # no call could begin: enough have ended, or none is left
        self.running: dict[Delivery[Any], Call] = {}

    def begin(self) -> None:
        """Begin as many calls as can run. If the first call never waits, its task also runs others."""
        if self._turn is not None:
            return  # the first call of this iteration has begun
        if len(self._unstarted) > 1 and len(self.running) + 1 < self._most:
            self._turn, self._stopped, began = object(), False, time.monotonic()
            if self._begin_one(partial(self._run_on, self._turn, began), began):
                asyncio.get_running_loop().call_soon(self._begin_others)
            else:
                self._turn = None
        else:
            self._begin_each()

    def _begin_others(self) -> None:
        """Begin the remaining calls, each in its own task; if none could begin, start as in `begin`."""
        self._turn = None
        if self._stopped:
            self.begin()
        else:
            self._begin_each()

    def _begin_each(self) -> None:
        """Begin as many calls as can run, each in its own task."""
        began = time.monotonic()
        while self._begin_one(self._run_alone, began):
            pass

    def _begin_one(self, run: Callable[[Delivery[Any]], Coroutine[Any, Any, None]], began: float) -> bool:
        if (delivery := self._next()) is None:
            return False
        self.running[delivery] = None, began
        task = self._create(run(delivery))
        if delivery in self.running:  # the call of an eager task may have ended
            self.running[delivery] = task, began
        return True

    def _next(self) -> Delivery[Any] | None:
        """The next delivery, if its call can begin now."""
        if len(self.running) >= self._most or not self._may_begin():
            return None
        try:
            return self._unstarted.popleft()
        except IndexError:  # none is left; the other thread may have taken it
            return None

    async def _run_alone(self, delivery: Delivery[Any]) -> None:
        if (rest := self._run(delivery)) is not None:
            await rest

    async def _run_on(self, turn: object, began: float, delivery: Delivery[Any]) -> None:
        """Run a call, and others in this event loop iteration, until one changes the task or its context."""
        context, task = copy_context(), asyncio.current_task()
        await self._run_alone(delivery)
        while task is not None and self._turn is turn and _is_unchanged(task, context):
            following = self._next()
            if following is None:
                self._stopped = True
                break
            self.running[following] = task, began
            if (rest := self._run(following)) is not None:
                await rest


def _is_unchanged(task: asyncio.Task[None], context: Context) -> bool:
    """Whether a call left nothing to the next one: no cancellation, no callback, no context variable.

    Before Python 3.13 a withdrawn cancellation is still raised when the task waits. A callback may release a
    lock. Variables are compared by identity.
    """
    if task.cancelling() or getattr(task, "_must_cancel", False) or getattr(task, "_callbacks", True):
        return False
    now = copy_context()
    if len(now) != len(context):
        return False
    return not now or (all(map(is_, now, context)) and all(map(is_, now.values(), context.values())))
