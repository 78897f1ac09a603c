"""The blocking colour's own part: running handlers, and messages from iterables."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from rq_dlq.client.base import BrokerBase
from rq_dlq.client.handlers import HandledQueue
from rq_dlq.core.claiming import cut_off
from rq_dlq.core.sending import send
from rq_dlq.errors import BrokerUnavailable, RqDlqError
from rq_dlq.errors.guesses import Answering, part_of
from rq_dlq.values.runner import runner_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from concurrent.futures import Future

    from rq_dlq._redis import Connections, Retries
    from rq_dlq._redis.waiting import Waiting
    from rq_dlq.client.broker import Broker
    from rq_dlq.client.delivery import Delivery
    from rq_dlq.core.claiming.consume import Consuming
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.core.sending.send import WithResult
    from rq_dlq.values.message import Message
    from rq_dlq.values.sent import Sent

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger("rq_dlq")


def listen(connections: Connections, waiting: Waiting) -> None:
    """Start a thread that listens for the waiting callers, until none is left."""
    threading.Thread(target=connections.listen, args=[waiting], name="rq-dlq results", daemon=True).start()


def outcome_of(future: Future[R], seconds: float) -> R | None:
    """The result of a future within this time; None: no result yet."""
    try:
        return future.result(seconds)
    except TimeoutError:
        return None


@part_of("Broker")
class OwnBroker(BrokerBase):
    """A broker that runs its handlers."""

    _connections: Connections | None = None

    def _import(self) -> None:
        from rq_dlq._redis import Connections  # noqa: F401, PLC0415 - redis-py, whose import takes long

    def _open(self, retries: Retries) -> Connections:
        from rq_dlq._redis import Connections  # noqa: PLC0415 - the same

        return Connections(retries=retries, **self._connection_settings())

    def close(self) -> None:
        """Close the connections, except those of a pool that was passed in; the next use opens new ones.

        Unsettled deliveries from `claim` are released if the program still refers to them.

        Examples:
            >>> broker.close()
        """
        if self._connections is not None:
            try:
                with suppress(BrokerUnavailable):  # then the leases expire
                    self._connections.run_once(self._hand_claims.give_back())
            finally:
                self._connections.close()

    def run(self, *, burst: bool = False) -> None:
        """Run the handlers and tasks until SIGTERM or SIGINT.

        The first signal lets running calls finish; a second one cancels them.

        Args:
            burst: stop when no message is ready in any of the queues.

        Raises:
            ConfigurationError: no queue has a handler.
            RqDlqError: a consumer or the lifespan failed; its error is in the log.

        Examples:
            >>> broker.run(burst=True)
        """
        runner_of(self, burst=burst).run()


class OwnQueue(Answering, HandledQueue[T]):
    """A queue that takes messages from iterables."""

    _broker: Broker
    _core: QueueState[T]

    def _consume(self, consuming: Consuming[Delivery[T]]) -> Generator[Delivery[T]]:
        cause: BaseException | None = None
        in_step = True  # so what is raised is no error of the loop's body
        try:
            while (delivery := self._broker._run(consuming.step())) is not None:
                in_step = False
                yield delivery
                in_step = True
        except BaseException as error:
            cause = error
            while isinstance(cause, GeneratorExit):  # closed, perhaps by another generator
                cause = cause.__context__
            raise
        finally:
            leaving = consuming.leave(cut_off=(cuts_off := cut_off.cuts_off_claim(cause)))
            try:
                if in_step and cuts_off:
                    self._broker._try_once(self._core, leaving)
                else:
                    self._broker._leave(self._core, leaving, cause)
            except RqDlqError as failure:
                if not consuming.is_dropped:
                    raise
                logger.warning("%s: ending a loop that was not closed failed: %s", self._core.name, failure)

    def _send_all(
        self, bodies: Iterable[T | Message[T]], options: SendOptions, with_result: WithResult
    ) -> list[Sent]:
        """Run the steps of `send_many`."""
        return self._broker._run(send.send(self._core, bodies, options, with_result))
