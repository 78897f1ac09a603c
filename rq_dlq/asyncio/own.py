"""The awaiting colour's own part: running handlers, and messages from async iterables."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, TypeVar

from rq_dlq import _work
from rq_dlq.client.base import BrokerBase
from rq_dlq.client.handlers import HandledQueue
from rq_dlq.errors import RqDlqError
from rq_dlq.errors.guesses import Answering, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.values.message import Message

T = TypeVar("T")


@part_of("Broker")
class OwnBroker(BrokerBase):
    """A broker that runs its handlers."""

    async def run(self, *, burst: bool = False) -> None:
        """Run the handlers and tasks until SIGTERM or SIGINT, those of `async def` in this event loop.

        The first signal lets running calls finish, a second one cancels them; so does a cancellation. The
        signals are the worker's while it runs: do not await this beside a web server in one process.

        Args:
            burst: stop when no message is ready in any of the queues.

        Raises:
            ConfigurationError: no queue has a handler.
            RqDlqError: a consumer or the lifespan failed; the log has its error.
        """
        await self._worker(burst=burst).run_in_loop()


class OwnQueue(Answering, HandledQueue[T]):
    """A queue that also takes messages from async iterables."""

    _broker: Broker
    _core: _work.Queue[T]

    async def _send_all(
        self, bodies: Iterable[T | Message[T]] | AsyncIterable[T | Message[T]], options: _work.SendOptions
    ) -> list[str]:
        """Run the steps of `send_many`: once, or for each window of an async iterable."""
        if not isinstance(bodies, AsyncIterable):
            return await self._broker._run(_work.send(self._core, bodies, options))
        ids: list[str] = []
        window: list[T | Message[T]] = []
        try:
            async for body in bodies:
                window.append(body)
                if len(window) == _work.CHUNK * _work.WINDOW:
                    ids += await self._broker._run(_work.send(self._core, window, options))
                    window = []
            return ids + await self._broker._run(_work.send(self._core, window, options))
        except RqDlqError as error:
            if ids:
                error.add_note(f"{len(ids):,} messages before it were sent")
            raise
