"""The queues that a stream reads: names, and patterns whose queues change while the query runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq.core.queues import calls
from rq_dlq.errors import DataLoss, InvalidInput
from rq_dlq.spark.queues import chosen

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.options import StreamOptions

T = TypeVar("T")
logger = logging.getLogger("rq_dlq.spark")


def lose(options: StreamOptions, message: str, advice: str) -> None:
    """End a query that lost something, or, without `failOnDataLoss`, only log it.

    Raises:
        DataLoss: the option is set.
    """
    if options.fail_on_loss:
        raise DataLoss(f"{message}. {advice}")
    logger.warning("%s", message)


class Subscription(Generic[T]):
    """The queues of a stream that there are now.

    Args:
        made: creates, for a name, the object that the stream works with.

    Attributes:
        queues: these, by name. It is replaced as a whole, since two threads read it.
    """

    def __init__(self, options: StreamOptions, made: Callable[[str], T]) -> None:
        self._options = options
        self._made = made
        self.queues: Mapping[str, T] = {}
        self._missed: set[str] = set()  # warnings that were logged

    def look(self, known: Collection[str] = (), read: Collection[str] | None = None) -> Steps[None]:
        """See which queues there are now.

        Args:
            known: the queues of the checkpoint.
            read: the queues that the query has read; None: not known yet, so none is missed.

        Raises:
            DataLoss: one of `read`, or of the option's names, was deleted, and `failOnDataLoss` is set.
            InvalidInput: the option lacks one of `known`.
        """
        options = self._options
        if strange := {*known}.difference(chosen([*known], options.queues, options.shards)[0]):
            raise InvalidInput(
                f"the checkpoint is for {', '.join(sorted(strange))}, but the query reads "
                f"{', '.join(options.queues)}: use the checkpoint of these queues, or a new one"
            )
        there: list[str] = yield calls.registered(options.namespace)
        found, missing = chosen(there, options.queues, options.shards)
        if read is not None:
            missed = {name for name in missing if "*" not in name} | {*read}.difference(there)
            if missed - self._missed:
                names = ", ".join(map(repr, sorted(missed)))
                advice = (
                    "Set failOnDataLoss=false to continue without it, and with it if it exists again; or use "
                    "a new checkpoint, and remove the name from the option queue"
                )
                lose(options, f"there is no queue {names} any more: its unread messages are lost", advice)
            self._missed = missed
        if [*self.queues] != found:
            old = self.queues
            self.queues = {name: old[name] if name in old else self._made(name) for name in found}
