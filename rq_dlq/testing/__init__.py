"""Tests of programs that use queues: a broker with a clock that the test moves. See docs/testing.md.

The fixture of the plugin redirects every broker of the process to the server of the test, whatever its URL,
so no test reaches real queues by accident (`redirect`). The server's clock stands still until the test moves
it: its clock module reads the clock from a key. A durability is the server's matter, so it is not checked
there.
"""

from __future__ import annotations

TYPE_CHECKING = False  # True for type checkers, without importing typing

if TYPE_CHECKING:
    from rq_dlq.testing.broker import TestBroker
    from rq_dlq.testing.faults import Faults
else:

    def __getattr__(name: str) -> object:
        """Import the public names on first use, since each run of pytest imports this package."""
        if name in __all__:
            from rq_dlq.testing import broker, faults  # noqa: PLC0415

            return getattr(broker if name == "TestBroker" else faults, name)
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = ["Faults", "TestBroker"]
