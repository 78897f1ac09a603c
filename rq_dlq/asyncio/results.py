"""Results of messages: any process can read them by id, and wait for them."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rq_dlq.asyncio.own import OwnQueue, listen, outcome_of
from rq_dlq.core.results import calls, results
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.errors.guesses import part_of
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.names import check_id
from rq_dlq.values.sent import Sent, birth_meant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.core.results.calls import Found
    from rq_dlq.values.codec import Codec
    from rq_dlq.values.sent import Did, Known, SentBefore

T = TypeVar("T")
R = TypeVar("R")
_NEW = Sent()  # of any message that is new


@part_of("Queue")
class Results(OwnQueue[T]):
    """The verb of a queue that reads results."""

    async def result(self, message_id: str, *, wait: Duration | None = None) -> Any:
        """The result of a message: its handler's return value, or the value passed to `Delivery.ack`.

        Results are kept for messages sent with `result=True`, and for all messages of a queue with `results`,
        for the time set there, by default an hour. Any process may read a result, any number of times. All
        waiting callers of a process share one connection.

        Args:
            message_id: the id. The object that `send` returned means its own message, also if a later one
                has the same id; text means the newest.
            wait: how long to wait until the message is done; None: do not wait.

        Returns:
            A JSON value or bytes; None if the handler returned None.

        Raises:
            ResultError: the message is dead, expired, or was removed without a result. After a redrive it may
                have one.
            ResultUnavailable: there is no result yet, or no longer.
            InvalidInput: an argument is not valid.
            BrokerUnavailable: the server does not answer.

        Examples:
            >>> sent = await orders.send({"total": 7.0}, id="order-42", result=True, priority=9)
            >>> (delivery,) = await orders.claim()
            >>> settlement = await delivery.ack(result={"paid": 7.0})
            >>> await orders.result("order-42", wait="5s")
            {'paid': 7.0}
        """
        return await self._result(message_id, wait)

    async def _result(self, message_id: str, wait: Duration | None, codec: Codec[Any] | None = None) -> Any:
        check_id(message_id)
        meant, found = calls.Meant(message_id, birth_meant(message_id)), None
        if wait is not None:
            found = await self._heard(meant, milliseconds(wait, name="wait") / 1000)
        if found is None:
            found = await self._broker._run(results.find(self._core, meant))
        return results.value_of(self._core, message_id, found, codec)

    async def _heard(self, meant: calls.Meant, seconds: float) -> Found | None:
        """The end of a message, if it is published within this time; otherwise the last poll's finding."""
        broker, waiting, keys = self._broker, self._broker._waiting, self._core.keys
        place, heard = waiting.add(keys, meant), None
        try:
            if place.starts:
                listen(await broker._connected(), waiting)
            elif place.tell:
                with suppress(BrokerRefused, BrokerUnavailable):  # the listener polls within a second
                    await broker._run(broker._step(calls.tell(place.tell)))
            heard = await outcome_of(place.future, seconds)
        finally:
            last = waiting.remove(keys, meant, place.future)
        return last if heard is None else heard


def all_for_results(
    queue: Results[Any], codec: Codec[Any] | None, ids: Iterable[str], births: Iterable[int]
) -> list[SentForResult[Any]]:
    """As `all_sent_with`, with a method that gets the result; see `SentForResult`."""
    made: list[SentForResult[Any]] = [*map(str.__new__, repeat(SentForResult), ids)]
    of = (queue, codec)
    for sent, birth in zip(made, births, strict=True):
        sent._birth, sent._of = birth, of  # noqa: SLF001 - as `__new__`
    return made


class SentForResult(Sent, Generic[R]):
    """The id of a message sent with `result=True`: text with a method that gets the result.

    Examples:
        >>> sent = await orders.send({"total": 7.0}, result=True, priority=9)
        >>> (delivery,) = await orders.claim()
        >>> settlement = await delivery.ack(result="paid")
        >>> await sent.result(wait="5s")
        'paid'
        >>> sent.new, sent.known, sent.did, sent.birth == sent.birth
        (True, None, None, True)
    """

    __slots__ = ("_of", "_told")
    _of: tuple[Results[Any], Codec[Any] | None]
    _told: Sent  # what the send told of it; not there: it is new

    def __new__(cls, sent: Sent, queue: Results[Any], codec: Codec[Any] | None = None) -> Self:
        """Make it from the return value of a send to this queue.

        Args:
            codec: decodes the result; None: any JSON value, or bytes.
        """
        made = super().__new__(cls, sent)
        made._birth, made._of, made._told = sent.birth or 0, (queue, codec), sent
        return made

    def _known_as(self, before: SentBefore) -> Self:
        self._birth, self._told = before.birth or 0, before
        return self

    @property
    def birth(self) -> int | None:
        """The number of this send; see `Sent.birth`."""
        return super().birth

    @property
    def new(self) -> bool | None:
        """False: the queue already has a message with this id, so nothing was sent."""
        return getattr(self, "_told", _NEW).new

    @property
    def known(self) -> Known | None:
        """The state of the earlier message; None: this one is new."""
        return getattr(self, "_told", _NEW).known

    @property
    def did(self) -> Did | None:
        """What the send did to the earlier message; None: nothing. See `Sent.did`."""
        return getattr(self, "_told", _NEW).did

    async def result(self, *, wait: Duration | None = None) -> R:
        """The result; see `Queue.result`.

        Args:
            wait: how long to wait until the message is done; None: do not wait.

        Returns:
            The handler's return value; for a task, of its function's return type.

        Raises:
            ResultError, ResultUnavailable, BrokerUnavailable: see `Queue.result`.

        Examples:
            >>> sent = await orders.send({"total": 7.0}, id="order-42", result=True)
            >>> await sent.result()
            Traceback (most recent call last):
            rq_dlq.errors.ResultUnavailable: message order-42 of 'orders' is not done yet: …
        """
        queue, codec = self._of
        return await queue._result(self, wait, codec)  # type: ignore[no-any-return]
