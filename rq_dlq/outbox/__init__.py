"""The outbox: messages are written to a table in the transaction of the program, and a relay sends them.

`Outbox` is for SQLAlchemy. `rq-dlq outbox MODULE:OUTBOX` is the relay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rq_dlq.outbox.relay import Relay
    from rq_dlq.outbox.sqlalchemy import Outbox

__all__ = ["Outbox", "Relay"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: not every relay needs SQLAlchemy."""
    if name == "Relay":
        from rq_dlq.outbox.relay import Relay  # noqa: PLC0415

        return Relay
    if name == "Outbox":
        from rq_dlq.outbox.sqlalchemy import Outbox  # noqa: PLC0415

        return Outbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
