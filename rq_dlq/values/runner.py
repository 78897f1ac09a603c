"""The runner of a broker's handlers: the worker. Brokers do not import it, since it imports them."""

from __future__ import annotations

TYPE_CHECKING = False  # True for type checkers, without importing typing

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, Protocol, TypeAlias

    class Runner(Protocol):
        """Runs the handlers of a broker."""

        def run(self) -> None:
            """Run them in this thread."""
            ...

        async def run_in_loop(self) -> None:
            """Run them beside the running event loop."""
            ...

    Make: TypeAlias = Callable[[Any, Literal["stopped", "empty"]], Runner]
    """Makes the runner of a blocking or async broker; the second argument says when it ends."""

_REGISTERED: dict[str, Make] = {}


def register(make: Make) -> Make:
    """Register a function that makes runners, in place of an earlier one."""
    _REGISTERED["runner"] = make
    return make


def runner_of(broker: Any, *, burst: bool) -> Runner:
    """A runner for this broker.

    Args:
        broker: a blocking or an async broker.
        burst: True: it ends when no message is ready in any of the queues and no call is running.
    """
    return _REGISTERED["runner"](broker, "empty" if burst else "stopped")
