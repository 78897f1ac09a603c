"""What a worker refuses: arguments that are not valid, and to run while its program is imported.

Each room checks its own arguments, since the words of its errors are its own.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast, get_args

from rq_dlq.client.handlers import check_concurrency
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.durations import shown
from rq_dlq.worker.stopping import Until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rq_dlq.client.handlers import Handler

GUARD = 'if __name__ == "__main__":'
_imported: ContextVar[str] = ContextVar("imported", default="")


def check_until(until: object) -> None:
    """Check the argument `until` of a worker.

    Raises:
        ConfigurationError: it is not valid.
    """
    known = get_args(Until)
    if until not in known:
        raise ConfigurationError(f"until is {shown(until)}. Pass one of {', '.join(map(repr, known))}")


def wanted(handlers: Sequence[Handler], queues: object) -> Iterator[tuple[Handler, int]]:
    """The handlers that a worker runs, each with its concurrency.

    Args:
        queues: as of `Worker`.

    Raises:
        ConfigurationError: there is no handler to run, or `queues` is not valid.
    """
    by_name = {handler.queue.name: handler for handler in handlers}
    if not by_name:
        raise ConfigurationError(
            "there is no handler to run: decorate a function with @queue.handler or @broker.task"
        )
    if not isinstance(queues, Mapping | None):
        message = (
            f'queues is {shown(queues)}. Pass a mapping of names to concurrencies, such as {{"a": None}}'
        )
        raise ConfigurationError(message)
    chosen = cast("Mapping[object, object]", queues or dict.fromkeys(by_name))
    for name, concurrency in chosen.items():
        if name not in by_name:
            known = ", ".join(by_name)
            message = f"no handler takes the messages of {name!r}: choose from {known}"
            raise ConfigurationError(message)
        handler = by_name[cast("str", name)]
        if concurrency is not None:
            check_concurrency(concurrency)
        yield handler, handler.concurrency if concurrency is None else cast("int", concurrency)


@contextmanager
def importing(module: str) -> Generator[None]:
    """Mark that `rq-dlq worker` imports a module for its handlers."""
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
