"""Detects an app that runs its own worker while `rq-dlq worker` imports it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from rq_dlq.errors import ConfigurationError

GUARD = 'if __name__ == "__main__":'
_imported: ContextVar[str] = ContextVar("imported", default="")


@contextmanager
def importing(module: str) -> Generator[None]:
    """Mark that a module is being imported for its handlers."""
    token = _imported.set(module)
    try:
        yield
    finally:
        _imported.reset(token)


def refuse_while_importing() -> None:
    """Refuse to run a worker during the import.

    Raises:
        ConfigurationError: an app is being imported.
    """
    if module := _imported.get():
        message = f"{module} runs broker.run() while it is imported: put it under the line `{GUARD}`"
        raise ConfigurationError(message)
