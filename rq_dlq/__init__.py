"""Redelivery done right, on Redis. No relation to the library RQ."""

from __future__ import annotations

from rq_dlq.values import runner
from rq_dlq.values.version import __version__ as __version__

TYPE_CHECKING = False  # True for type checkers, without importing typing

if TYPE_CHECKING:
    from typing import Any

    from rq_dlq._public import *  # noqa: F403 - it has the list
else:

    def __getattr__(name: str) -> object:
        """Import the public names on the first use of one.

        So importing the package is immediate, and Ctrl-C can interrupt the command line from the start.
        """
        if not name.startswith("_") or name == "__all__":
            from rq_dlq import _public  # noqa: PLC0415

            try:
                return getattr(_public, name)
            except AttributeError:
                if name in globals():  # a submodule that the import bound
                    return globals()[name]
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})


@runner.register
def _worker(broker: Any, until: Any) -> Any:
    """The worker, for `broker.run()`: only the top of the package imports both."""
    from rq_dlq.worker import Worker  # noqa: PLC0415 - only where handlers run

    return Worker(broker, until=until)
