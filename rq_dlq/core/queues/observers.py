"""The observers of a broker, called so that nothing they raise does harm."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from rq_dlq.values.failure import Cause
from rq_dlq.values.observer import Observer, Settled

if TYPE_CHECKING:
    from rq_dlq.core.steps.call import Held
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.observer import Sending
    from rq_dlq.values.settlement import Settlement

S = TypeVar("S")
logger = logging.getLogger("rq_dlq")
NO_CAUSE = Cause()


class Observers(list[Observer]):
    """The observers of a broker; a list, so that it costs next to nothing to see that there are none."""

    def __init__(self) -> None:
        super().__init__()
        self._handled: WeakValueDictionary[Held, Leased[Any]] = WeakValueDictionary()

    @contextmanager
    def sending(self, sending: Sending) -> Generator[None]:
        """Show them a call that sends."""
        contexts = _Contexts([observer.sending for observer in self], sending)
        try:
            yield
        except BaseException as error:
            contexts.leave(error)
            raise
        contexts.leave(None)

    def handling(self, delivery: Leased[Any]) -> Handling:
        """Show them that a call of a handler or a `with` block begins; the caller ends it."""
        handling: Handling | None = delivery._handling
        if handling is None:
            handling = Handling([observer.handling for observer in self], delivery)
            delivery._handling = handling
            self._handled[delivery._held] = delivery
        handling.depth += 1
        return handling

    def settled(
        self,
        queue: str,
        held: Sequence[Held],
        settlements: Sequence[Settlement],
        error: BaseException | str | None = None,
        cause: Cause = NO_CAUSE,
    ) -> None:
        """Show them the outcomes of messages."""
        for token, (message_id, outcome, delay, *_) in zip(held, settlements, strict=True):
            delivery = self._handled.get(token)
            settled = Settled(queue, message_id, outcome, delay, error, cause, delivery)
            for observer in self:
                try:
                    observer.settled(settled)
                except Exception:
                    logger.exception("%s: an observer failed", queue)


class _Contexts:
    """The contexts that observers opened for one call or block."""

    def __init__(self, hooks: Iterable[Callable[[S], AbstractContextManager[object]]], subject: S) -> None:
        self._entered: list[AbstractContextManager[object]] = []
        for hook in hooks:
            try:
                context = hook(subject)
                context.__enter__()
            except Exception:
                logger.exception("%r: an observer failed", subject)
            else:
                self._entered.append(context)

    def leave(self, error: BaseException | None) -> None:
        """Leave them, the last one first."""
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        for context in reversed(self._entered):
            try:
                context.__exit__(kind, error, trace)
            except Exception:
                logger.exception("an observer failed")


class Handling:
    """The handling of one delivery, as its observers see it; `with` blocks inside a handler are part of it.

    Attributes:
        depth: how many of these calls and blocks have begun, and not ended.
    """

    def __init__(
        self, hooks: Iterable[Callable[[Leased[Any]], AbstractContextManager[object]]], delivery: Leased[Any]
    ) -> None:
        self.depth = 0
        self._contexts = _Contexts(hooks, delivery)
        self._inside = copy_context()

    def end(self, error: BaseException | None) -> None:
        """End it; the error is that of the call or the block."""
        self.depth -= 1
        if self.depth == 0:
            self._contexts.leave(error)

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function with the context variables that the handler had, as for a line of the log."""
        self._inside.run(function, *arguments)
