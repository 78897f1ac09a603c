"""Imports the app that `rq-dlq worker` or `rq-dlq outbox` runs."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

import rq_dlq
from rq_dlq import asyncio
from rq_dlq.client.broker import Broker
from rq_dlq.errors import ConfigurationError
from rq_dlq.outbox.ledger import Relayed
from rq_dlq.worker.arguments import GUARD, importing

if TYPE_CHECKING:
    from rq_dlq.cli._context import Context
    from rq_dlq.client.base import BrokerBase

logger = logging.getLogger("rq_dlq.worker")
OURS = str(Path(rq_dlq.__file__).parent)
LONG = 5.0  # seconds until the position of a slow import is logged


class _Endless(BaseException):
    """The import took too long. Not an Exception, since a loop in the app might catch one."""


def load(app: str, seconds: float) -> Broker | asyncio.Broker:
    """Import the app; returns the broker that MODULE:BROKER names.

    Args:
        seconds: the time limit of the import.

    Raises:
        ConfigurationError: the object does not exist or is not a broker, or the import fails, runs a worker
            or reaches the time limit.
    """
    found = _named(app, seconds, "broker")
    if not isinstance(found, Broker | asyncio.Broker):
        raise ConfigurationError(f"{app} is of type {type(found).__name__}, not a Broker of rq_dlq")
    return found


def load_outbox(app: str, seconds: float) -> Relayed:
    """Import the app; returns the outbox that MODULE:OUTBOX names. The rest is as in `load`."""
    found = _named(app, seconds, "outbox")
    if not isinstance(found, Relayed):
        raise ConfigurationError(f"{app} is of type {type(found).__name__}, not an Outbox of rq_dlq")
    return found


def agree(context: Context, broker: BrokerBase, app: str) -> None:
    """Check that the app uses the options. It gets them from the environment, but its code may set others.

    Raises:
        ConfigurationError: the app sets a URL or namespace, and the option has another one.
    """
    url, namespace = broker.settings.url, broker.settings.namespace
    if context.url and (url or context.url) != context.url:
        raise ConfigurationError(f"{app} sets its own URL, {broker.url}: leave out --url")
    if context.namespace and namespace != context.namespace:
        raise ConfigurationError(f"{app} sets its own namespace, {namespace}: leave out --namespace")


def _named(app: str, seconds: float, what: str) -> object:
    """The object that MODULE:NAME names; `what` it is, and its name if there is none."""
    name, _, attribute = app.partition(":")
    word = what.upper()
    if not name:
        raise ConfigurationError(f"{app!r} names no module: pass MODULE:{word}, such as shop:{what}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found: object = _module(name, seconds, word)
    for part in (attribute or what).split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"{name} has no {part!r}: name its {what}, {name}:{word}")
        found = getattr(found, part)
    return found


def _module(name: str, seconds: float, word: str) -> ModuleType:
    if "/" in name or name.endswith(".py"):
        dotted = name.removesuffix(".py").replace("/", ".").strip(".")
        raise ConfigurationError(f"{name} is a path: pass the module, {dotted}:{word}")
    try:
        with importing(name), _at_most(name, seconds):
            return import_module(name)
    except _Endless as error:
        message = (
            f"{name} is not imported after {seconds:g} s; it is at {_place(error)}. Put the code that it "
            f"runs under the line `{GUARD}`; if the import only takes long, pass --import-timeout"
        )
        raise ConfigurationError(message) from error
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            advice = _advice(missing, word)
            message = f"there is no module {missing!r} in {Path.cwd()} or on Python's path: {advice}"
        else:
            place = "" if isinstance(error, SyntaxError) else f" ({_place(error)})"  # its text has the place
            message = f"{name} cannot be imported: {type(error).__name__}: {error}{place}"
        raise ConfigurationError(message) from error


def _advice(missing: str, word: str) -> str:
    """Advice for a user who may have typed a dot instead of the colon, or the name of a queue."""
    module, _, attribute = missing.rpartition(".")
    if hasattr(sys.modules.get(module), attribute):
        return f"pass {module}:{attribute}"
    more = "; -q NAME chooses a queue" if word == "BROKER" else ""
    return f"pass the Python module that has the {word.lower()}{more}"


@contextmanager
def _at_most(name: str, seconds: float) -> Generator[None]:
    """Log the position of a slow import, and interrupt it at its time limit."""
    importer = threading.get_ident()

    def say() -> None:
        where = _at(traceback.extract_stack(sys._current_frames()[importer]))  # noqa: SLF001 - the only way
        logger.warning("%s is still being imported after %g s; it is at %s", name, LONG, where)

    def end(_: int, __: FrameType | None) -> None:
        raise _Endless

    timer = threading.Timer(LONG, say)
    timer.daemon = True
    before = signal.signal(signal.SIGALRM, end)
    try:
        timer.start()
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        timer.cancel()


def _place(error: BaseException) -> str:
    """The line of the app that raised an error."""
    return _at(traceback.extract_tb(error.__traceback__))


def _at(stack: traceback.StackSummary) -> str:
    """The innermost line of the app, or else of any file outside this package and Python's import system."""
    others = [frame for frame in stack if not frame.filename.startswith((OURS, "<frozen"))]
    own = [frame for frame in others if Path(frame.filename).is_relative_to(Path.cwd())]
    own = [frame for frame in own if "site-packages" not in frame.filename]
    frame = [*stack[-1:], *others, *own][-1]
    return f"{frame.filename}, line {frame.lineno}"
