"""What lives as long as a worker process: its event loop, and what the app's lifespan yields."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Generator
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
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from rq_dlq.client.handlers import Lifespan

LOOK = 1.0  # seconds between two looks whether it is over
Patience: TypeAlias = Callable[[], float | None]
"""How long to wait for the event loop to do something, in seconds; None: without limit."""


@contextmanager
def event_loop(patience: Patience, broken: Callable[[], None]) -> Generator[asyncio.AbstractEventLoop]:
    """An event loop in a thread of its own; calls `broken` if it breaks, before its tasks are cancelled."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        ended = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), ended))
        while not ended.is_set():  # a handler may have closed what wakes the loop
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await ended.wait()

    def run() -> None:
        with asyncio.Runner() as runner:
            try:
                runner.run(serve())
            except BaseException:  # noqa: BLE001 - it ends the worker
                broken()
                logger.exception("the event loop of the worker broke")

    thread = threading.Thread(target=run, name="rq-dlq event loop", daemon=True)
    thread.start()
    loop, ended = started.result()
    try:
        yield loop
    finally:
        with suppress(RuntimeError):  # it broke, and is closed
            loop.call_soon_threadsafe(ended.set)
        thread.join(patience())


@contextmanager
def entered(lifespan: Lifespan | None, loop: asyncio.AbstractEventLoop, patience: Patience) -> Generator[Any]:
    """Enter a lifespan, an async one in this event loop; yields what it yields.

    Raises:
        ConfigurationError: it does not return a context manager.
        RqDlqError: it failed.
    """
    if lifespan is None:
        yield None
        return
    with ExitStack() as stack:
        with _failing(lifespan, "before the first message"):
            state = stack.enter_context(_manager(lifespan, loop, patience))
        yield state
        with _failing(lifespan, "after the last message"):
            stack.close()


@contextmanager
def _failing(lifespan: Lifespan, when: str) -> Generator[None]:
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {Cause.of(error).message}".rstrip(": ")
        message = f"the lifespan {_name(lifespan)} failed {when}, which ends the worker: {why}"
        raise RqDlqError(message) from error


def _manager(
    lifespan: Lifespan, loop: asyncio.AbstractEventLoop, patience: Patience
) -> AbstractContextManager[Any]:
    function: Callable[[], object] = lifespan
    if inspect.isasyncgenfunction(lifespan):
        function = asynccontextmanager(lifespan)
    elif inspect.isgeneratorfunction(lifespan):
        function = contextmanager(lifespan)
    made = function()
    if isinstance(made, AbstractAsyncContextManager):
        return _in_loop(made, loop, patience)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(made, AbstractContextManager):
        return made  # pyright: ignore[reportUnknownVariableType]
    message = (
        f"the lifespan {_name(lifespan)} returned a {type(made).__name__}, not a context manager: let it "
        "yield its state once, def or async def"
    )
    raise ConfigurationError(message)


def _name(lifespan: Lifespan) -> str:
    return str(getattr(lifespan, "__qualname__", repr(lifespan)))


@contextmanager
def _in_loop(
    manager: AbstractAsyncContextManager[Any], loop: asyncio.AbstractEventLoop, patience: Patience
) -> Generator[Any]:
    """An async context manager, entered and left by one task of this loop, from outside of it."""
    state: Future[Any] = Future()
    leaving = asyncio.Event()

    async def stay() -> None:
        async with manager as value:
            state.set_result(value)
            await leaving.wait()

    staying = asyncio.run_coroutine_threadsafe(stay(), loop)
    wait([state, staying], return_when=FIRST_COMPLETED)
    if not state.done():
        staying.result()  # raises what went wrong
        raise RuntimeError("it ended before it yielded")
    try:
        yield state.result()
    finally:
        loop.call_soon_threadsafe(leaving.set)
        try:
            staying.result(patience())
        except TimeoutError:
            if staying.done():
                raise  # its own
            raise RuntimeError("a call that cannot be cut short blocks its event loop") from None
