"""The event loop of a worker process, and the app's lifespan.

There is one loop because an async lifespan opens things that belong to a loop, such as a pool of connections.
One task enters the lifespan before the first claim, and leaves it when all calls have ended. Its state is an
attribute of the queue objects that the worker makes for itself, so two workers of one process have each their
own.

A lifespan that is being entered is cancelled at the first signal, if it is async. A `def` blocks the thread
that gets the signals, so there a third signal acts as it would without us. At other times it does not: a
supervisor and a terminal may signal the same process, and the calls have 4 s to be cancelled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import TYPE_CHECKING, Any, TypeAlias

from rq_dlq.errors import ConfigurationError, RqDlqError
from rq_dlq.values.failure import Cause
from rq_dlq.worker.stopping import TICK, Stop
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from rq_dlq.client.handlers import Lifespan

TOO_LATE = "it has not ended in time, for example because a call blocks its event loop"
LOOK = 1.0  # seconds between two checks if it has ended
Patience: TypeAlias = Callable[[], float]
"""The remaining time to wait for the event loop, seconds."""


@contextmanager
def event_loop(patience: Patience, broken: Callable[[], None]) -> Generator[asyncio.AbstractEventLoop]:
    """An event loop in its own thread. If it breaks, `broken` is called before its tasks are cancelled."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        ended = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), ended))
        while not ended.is_set():  # a handler may have closed the loop's wake-up descriptor
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await ended.wait()

    def run() -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(serve())
        except BaseException as error:  # noqa: BLE001 - it ends the worker
            if not started.done():  # for example if the process has no descriptor left
                started.set_exception(error)
                return
            broken()
            logger.exception("the event loop of the worker broke")

    thread = threading.Thread(target=run, name="rq-dlq event loop", daemon=True)
    thread.start()
    loop, ended = started.result()
    try:
        yield loop
    finally:
        with suppress(RuntimeError):  # the event loop broke, and is closed
            loop.call_soon_threadsafe(ended.set)
        while thread.is_alive() and patience() > 0:
            thread.join(TICK)


class NotEntered(Exception):  # noqa: N818 - it is not an error
    """The worker was stopped while it entered its lifespan."""


@contextmanager
def entered(
    lifespan: Lifespan | None, loop: asyncio.AbstractEventLoop, patience: Patience, stop: Stop
) -> Generator[Any]:
    """Enter a lifespan, an async one in this event loop; yields its value.

    Raises:
        NotEntered: the worker was stopped in the meantime; an async lifespan was cancelled.
        ConfigurationError: it does not return a context manager.
        RqDlqError: it failed.
    """
    if lifespan is None:
        yield None
        return
    with ExitStack() as stack:
        with _own_code(lifespan, "before the first message", stop):
            state = stack.enter_context(_manager(lifespan, loop, patience, stop))
        yield state
        with _own_code(lifespan, "after the last message", stop):
            stack.close()


@contextmanager
def _own_code(lifespan: Lifespan, when: str, stop: Stop) -> Generator[None]:
    stop.blocked = True
    try:
        yield
    except (ConfigurationError, NotEntered):
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {Cause.of(error).message}".rstrip(": ")
        message = f"the lifespan {_name(lifespan)} failed {when}, which ends the worker: {why}"
        raise RqDlqError(message) from error
    finally:
        stop.blocked = False


def _manager(
    lifespan: Lifespan, loop: asyncio.AbstractEventLoop, patience: Patience, stop: Stop
) -> AbstractContextManager[Any]:
    made: Any = lifespan()
    kind = type(made).__name__
    if isinstance(made, AsyncGenerator):
        made = asynccontextmanager(lambda: made)()
    elif isinstance(made, Generator):
        made = contextmanager(lambda: made)()
    if isinstance(made, AbstractAsyncContextManager):
        return _in_loop(made, loop, patience, stop)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(made, AbstractContextManager):
        return made  # pyright: ignore[reportUnknownVariableType]
    if isinstance(made, Coroutine):
        made.close()  # otherwise Python warns that it was never awaited
    message = (
        f"the lifespan {_name(lifespan)} returned a {kind}, not a context manager: let it "
        "yield its state once, def or async def"
    )
    raise ConfigurationError(message)


def _name(lifespan: Lifespan) -> str:
    return str(getattr(lifespan, "__qualname__", repr(lifespan)))


@contextmanager
def _in_loop(
    manager: AbstractAsyncContextManager[Any],
    loop: asyncio.AbstractEventLoop,
    patience: Patience,
    stop: Stop,
) -> Generator[Any]:
    """Use an async context manager from another thread; one task of this loop enters and exits it."""
    state: Future[Any] = Future()
    leaving = asyncio.Event()
    tasks: list[asyncio.Task[Any] | None] = []

    async def stay() -> None:
        tasks.append(asyncio.current_task())
        async with manager as value:
            state.set_result(value)
            await leaving.wait()

    def cancel() -> None:
        for task in tasks:
            if task and not (state.done() or task.cancelling()):
                task.cancel()

    staying = asyncio.run_coroutine_threadsafe(stay(), loop)
    while not wait([state, staying], TICK, FIRST_COMPLETED).done and patience() > 0:
        if stop.finishing.is_set():
            loop.call_soon_threadsafe(cancel)
    if not state.done():
        raise _why_not(staying, stop)
    try:
        yield state.result()
    finally:
        loop.call_soon_threadsafe(leaving.set)
        while not wait([staying], TICK).done:
            if patience() <= 0:
                raise RuntimeError(TOO_LATE)
        staying.result()


def _why_not(staying: Future[Any], stop: Stop) -> BaseException:
    """The error that prevented entering it."""
    if stop.finishing.is_set() and (staying.cancelled() or not staying.done()):
        return NotEntered()
    return staying.exception() or RuntimeError("it ended before it yielded")
