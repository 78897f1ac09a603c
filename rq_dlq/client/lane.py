# Generated from rq_dlq/asyncio/lane.py by `python -m tests.colours_twin --write`.
"""A part of a queue that can be paused on its own: the messages with one key, or with one dependency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rq_dlq.core.managing import pausing
from rq_dlq.errors.guesses import Answering

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.broker import Broker
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.key import Of


class Lane(Answering):
    """The messages of a queue with one key or one dependency; `of` says which of the two."""

    _of: ClassVar[Of]

    def __init__(self, text: str, core: QueueState[Any], broker: Broker) -> None:
        self._text = text
        self._core = core
        self._broker = broker

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._text!r} of {self._core.name!r}>"

    def pause(self, until: datetime | Duration | None = None, *, by: str | None = None) -> bool:
        """Stop delivering its messages. Running handlers continue; failures of a dependency are not charged.

        Args:
            until: the end of the pause: a datetime with a time zone, or a duration; None: until `resume`.
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether anything changed.

        Raises:
            InvalidInput: an argument is not valid, `until` has passed, or the queue is a dead-letter or
                expiry queue.

        Examples:
            >>> orders.key("customer-7").pause(until="10m")
            True
            >>> orders.dependency("payments").pause(by="anna")
            True
        """
        return self._set_paused(paused=True, until=until, by=by)

    def resume(self, *, by: str | None = None) -> bool:
        """Deliver its messages again; those of a dependency 32 at first, then as earlier ones succeed.

        Args:
            by: the operator's name, for the audit; None: the user and host of this process.

        Returns:
            Whether anything changed; False: it was not paused.

        Raises:
            InvalidInput: an argument is not valid, or the queue is a dead-letter or expiry queue.

        Examples:
            >>> changed = orders.key("customer-7").pause()
            >>> orders.key("customer-7").resume()
            True
        """
        return self._set_paused(paused=False, until=None, by=by)

    def _set_paused(
        self, *, paused: bool, until: datetime | Duration | None, by: str | None, close: bool = False
    ) -> bool:
        steps = pausing.set_lane_paused(
            self._core, self._of, self._text, paused=paused, until=until, close=close, by=by
        )
        return self._broker._run(steps)
