# Generated from rq_dlq/asyncio/gather.py by `python -m tests.colours_twin --write`.
"""Gathers: when a number of messages have ended, another one is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from rq_dlq.client.addressed import addressed
from rq_dlq.client.results import SentForResult
from rq_dlq.core.claiming.cut_off import is_cut_off
from rq_dlq.core.gathers import gather
from rq_dlq.core.sending.packing import asks_result
from rq_dlq.values.forks import this_process
from rq_dlq.values.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Self

    from rq_dlq.client.broker import Broker
    from rq_dlq.client.queue import Queue
    from rq_dlq.client.task import Task
    from rq_dlq.core.sending.packing import Addressed
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import Sent

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
M = TypeVar("M")


class Gather:
    """Messages, its children, after whose ends another one, `then`, is delivered; `broker.gather` makes it.

    Entering the block sends `then`, scheduled for the end of `within`. It becomes due when the block has
    ended and each child has ended in any way: acked, dead, expired, purged, cancelled, moved or discarded; or
    when `within` is over. It is one message from the beginning, so it is delivered as any other: once, and
    again if its consumer fails. Its handler reads `Delivery.gathered`. A child that is redriven before all
    children of its queue have ended is open again.

    An error in the block cancels the gather, as `cancel` does, and is raised. If the process is killed in the
    block, `then` is delivered at the end of `within`. A task that is cancelled while it enters the block
    leaves no `then`, unless its id was chosen; while it leaves the block, it closes the gather all the same.
    If `then` is cancelled, purged, moved or expires, the gather is over. A forked child that leaves the block
    leaves the gather to its parent.

    Examples:
        >>> with broker.gather(then=(mails, {"to": "anna"}), within="1d") as gather:
        ...     for total in (7.0, 8.0):
        ...         sent = gather.send(orders, {"total": total})
        >>> stats = mails.stats()
        >>> stats.scheduled, stats.gathers
        (1, 1)
    """

    def __init__(self, broker: Broker, core: gather.Gathering) -> None:
        self._broker = broker
        self._core = core
        self._process = 0  # the process that entered the block

    def __repr__(self) -> str:
        return f"<Gather {self.id or 'not open'} at {self._broker.url}>"

    @property
    def id(self) -> str:
        """The id of the gather, which is the id of `then`; empty before the block.

        Examples:
            >>> gather = broker.gather(then=(mails, Message({"to": "anna"}, id="mail-7")))
            >>> with gather:
            ...     print(gather.id)
            mail-7
        """
        return self._core.id

    def send(
        self,
        queue: Queue[M],
        body: M,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        ttl: Duration | None = None,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
        persistent: bool | None = None,
        key: str | None = None,
        dependency: str | None = None,
        result: bool = True,
        at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Sent:
        """Send a child. The other arguments are as in `Queue.send`; a call of a task: see `options`.

        A message that the queue knows becomes a child, unless it is one of another gather; if it has ended,
        its end counts. An id that this gather has sent is not sent again, even if it was acked.

        Args:
            queue: any queue of the same broker. On Redis Cluster it shares a hash tag with that of `then`.
            body: the body, of that queue's type.
            id, delay, ttl, priority, headers, persistent, key, dependency, at, expires_at: as in
                `Queue.send`.
            result: keep the return value of the handler for `Delivery.gathered`.

        Returns:
            The id, as from `Queue.send`.

        Raises:
            InvalidInput: an argument is not valid, `expires_at` has passed, the gather has 10,000 children,
                or one with this id in another queue, or it is over: its `within` has passed, or its `then`
                was cancelled.
            KnownId: the message is a child of another gather; nothing was sent.
            CrossSlot: the queues are on different nodes of the cluster; nothing was sent.
            Unconfirmed: with durability "replicated": too few replicas have it.

        Examples:
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     sent = gather.send(orders, {"total": 7.0}, id="order-42", delay="1m")
            >>> sent, sent.new
            ('order-42', True)
        """
        message = Message(
            body, id=id, delay=delay, ttl=ttl, priority=priority, headers=headers, persistent=persistent,
            key=key, dependency=dependency, result=result, at=at, expires_at=expires_at,
        )  # fmt: skip
        return self._send(addressed((queue, message), self._broker), queue)

    def options(self, task: Task[P, R_co]) -> GatheredTask[P, R_co]:
        """A task whose calls are children of this gather.

        Args:
            task: a task, perhaps with options of its own (`Task.options`). Its results are kept, unless
                `task.options(result=False)` says otherwise.

        Returns:
            The task, with the method `send`.

        Examples:
            >>> @broker.task
            ... def render(page: int) -> int:
            ...     return page
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     sent = gather.options(render).send(7)
        """
        return GatheredTask(task, self)

    def close(self) -> None:
        """End the children: `then` is due when all have ended. The end of the block does this.

        Raises:
            InvalidInput: the gather was not opened.
            BrokerUnavailable: the outcome is unknown. It is safe to close it again.

        Examples:
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     gather.close()
            >>> [then] = mails.claim()
        """
        self._broker._run(gather.close(self._core))

    def cancel(self, *, by: str | None = None) -> int:
        """Cancel the children that wait, and `then`. Calls that run go on, and what has ended stays.

        Args:
            by: the operator, for the audit; None: user and host of this process.

        Returns:
            How many messages were cancelled, `then` included.

        Raises:
            InvalidInput: the gather was not opened.

        Examples:
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     sent = gather.send(orders, {"total": 7.0})
            ...     gather.cancel()
            2
        """
        return self._broker._run(gather.cancel(self._core, by))

    def _send(self, message: Addressed, queue: Queue[Any]) -> Sent:
        sent = self._broker._run(gather.send_child(self._core, message))
        return SentForResult[Any](sent, queue) if asks_result(message.queue, message.options) else sent

    def __enter__(self) -> Self:
        self._process = this_process()
        self._run(gather.open_gather(self._core), gather.abandon)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._process != this_process():
            return
        if error is None:
            if not self._core.over:
                self._run(gather.close(self._core), gather.close)
        else:
            self._broker._leave(self._core.then.queue, gather.cancel(self._core), error)

    def _run(self, steps: Steps[None], then: Callable[[gather.Gathering], Steps[None]]) -> None:
        """Run steps of the block; if they are cut off, these are tried once."""
        try:
            self._broker._run(steps)
        except BaseException as error:
            if is_cut_off(error):
                self._broker._leave(self._core.then.queue, then(self._core), error)
            raise


class GatheredTask(Generic[P, R_co]):
    """A task whose calls are children of a gather; `Gather.options` makes it.

    Examples:
        >>> @broker.task
        ... def render(page: int) -> int:
        ...     return page
        >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
        ...     rendering = gather.options(render.options(priority=9))
        ...     sent = [rendering.send(page) for page in range(3)]
    """

    def __init__(self, task: Task[P, R_co], gather: Gather) -> None:
        self._task = task
        self._send = gather._send  # noqa: SLF001 - no part of what users see, like the next

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """Send a call of the task as a child.

        Args:
            args, kwargs: the function's arguments, as in `Task.send`.

        Returns:
            The id, as from `Task.send`.

        Raises:
            InvalidMessage: the arguments do not fit the function; nothing was sent.
            InvalidInput, KnownId, CrossSlot, Unconfirmed: see `Gather.send`.

        Examples:
            >>> @broker.task
            ... def render(page: int) -> int:
            ...     return page
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     sent = gather.options(render).send(7)
        """
        return self._send(self._task._child(args, kwargs), self._task._queue)  # noqa: SLF001
