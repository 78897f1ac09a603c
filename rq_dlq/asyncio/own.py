"""The awaiting colour's own part: messages from async iterables."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Generic, TypeVar

from rq_dlq import _work
from rq_dlq._guesses import Answering
from rq_dlq.client.base import BrokerBase
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.asyncio.broker import Broker
    from rq_dlq.values.message import Message

T = TypeVar("T")


class OwnBroker(BrokerBase):
    """A broker without handlers: a worker has a blocking broker."""


class OwnQueue(Answering, Generic[T]):
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
