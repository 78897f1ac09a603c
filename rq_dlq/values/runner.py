"""Who runs the handlers of a broker: a worker, which brokers do not import, since it is built upon them."""

from __future__ import annotations

TYPE_CHECKING = False  # for type checkers True, and without an import of typing

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
    """Makes the runner of a broker of either colour, and says when it ends by itself."""

_REGISTERED: dict[str, Make] = {}


def register(make: Make) -> Make:
    """Register what makes a runner, in place of what did before."""
    _REGISTERED["runner"] = make
    return make


def runner_of(broker: Any, *, burst: bool) -> Runner:
    """A runner for this broker.

    Args:
        broker: of either colour.
        burst: it ends when no message is ready in any of the queues.
    """
    return _REGISTERED["runner"](broker, "empty" if burst else "stopped")
