# Generated from rq_dlq/asyncio/broker.py by `python -m tests.colours_twin --write`.
"""The broker: a connection to Redis, with settings, and its queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from rq_dlq.client.addressed import addressed
from rq_dlq.client.arguments import work_of
from rq_dlq.client.dependency import DependencyOfAll
from rq_dlq.client.gather import Gather
from rq_dlq.client.own import OwnBroker
from rq_dlq.client.policies import Policies
from rq_dlq.client.queue import Queue
from rq_dlq.client.task import Task
from rq_dlq.client.task_function import TaskFunction
from rq_dlq.client.tasks import RunSettings, register, rule_of
from rq_dlq.client.unique import unique_of
from rq_dlq.core.claiming import cut_off
from rq_dlq.core.gathers import reading
from rq_dlq.core.gathers.gather import gather_of
from rq_dlq.core.looking import audit, overview
from rq_dlq.core.processes import processes
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.schedules import schedules
from rq_dlq.core.schedules.schedule import USUAL_ZONE, Missed, Schedule
from rq_dlq.errors.guesses import answering
from rq_dlq.values.cached import cached_property
from rq_dlq.values.codec import Codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, Unpack

    from rq_dlq._redis import Connections, Retries
    from rq_dlq.core.looking.audit_record import AuditRecord
    from rq_dlq.core.looking.overview import Overview
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.policy import Declared
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.gathered import GatherStatus
    from rq_dlq.values.process import ProcessReport

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class Broker(OwnBroker):
    """The queues of one Redis server or cluster, for use safe with threads and after a fork.

    It connects on first use. Pickling keeps its settings, not its connections.

    Every verb of a broker and of its queues may raise `BrokerUnavailable` (the server does not answer, but
    may have carried out the call), `BrokerRefused` (the server refused the call, or is not fit for queues)
    and `MissingRights` (the Redis user lacks a right; nothing was changed). Each verb documents its other
    errors.

    Args:
        url: redis://…, rediss://…, unix://… or redis+sentinel://…; for a cluster, the URL of any node. None:
            $RQ_DLQ_URL, or the embedded server if that is unset; its use is logged.
        settings: all other settings, such as the durability; its fields can also be passed as keyword
            arguments.
        pool: a redis-py connection pool to use instead of a URL (such a broker cannot be pickled).
        verbs: the Lua; tests pass verbs with another clock.
        retries: instead of the setting `patience`; tests and workers pass them.
        options: fields of `BrokerSettings`, instead of `settings`.

    Raises:
        ConfigurationError: an option is unknown or not valid.

    Examples:
        >>> broker = Broker("redis://localhost:6379/0", namespace="shop")
        >>> broker.queue("orders").name
        'orders'
    """

    def _connected(self) -> Connections:
        """The connections of this broker, opened on first use.

        There is no lock, since a forked child could inherit it locked. If two callers connect at the same
        time, the connections of the first are kept.
        """
        if self._connections is None:
            connections = self._connect(self._retries)
            if vars(self).setdefault("_connections", connections) is not connections:
                connections.close()
        return vars(self)["_connections"]  # type: ignore[no-any-return]

    def _connect(self, retries: Retries, *, checked: bool = True) -> Connections:
        """Open separate connections with other retries, for a worker.

        Args:
            retries: how long a call is repeated while Redis does not answer.
            checked: check the server first; the doctor checks it itself.

        Returns:
            The connections; the caller closes them.

        Raises:
            BrokerRefused: the server is too old, would evict queues, or cannot keep the durability.
        """
        connections = self._open(retries)
        try:
            connections.route()
            if checked:
                versions = connections.everywhere(self.settings.check_server)
                connections.fit(min(versions.values()))
                if self.settings.durability != "memory":
                    connections.guard_by(self.settings.check_server)
        except BaseException:
            connections.close()
            raise
        return connections

    @overload
    def queue(
        self, name: str, *, type: type[T], lease: Duration = ..., **declared: Unpack[Declared]
    ) -> Queue[T]: ...
    @overload
    def queue(
        self, name: str, *, type: Any = ..., lease: Duration = ..., **declared: Unpack[Declared]
    ) -> Queue[Any]: ...
    def queue(
        self, name: str, *, type: Any = Any, lease: Duration = "30s", **declared: Unpack[Declared]
    ) -> Queue[Any]:
        """A queue of this broker. Nothing is created in Redis until it is used.

        Args:
            name: at most 200 bytes; it may be the name of a dead-letter or expiry queue.
            type: the type of the bodies: a dataclass, an attrs class, a msgspec.Struct, a TypedDict, a
                pydantic model, or any other type that msgspec supports; a body that does not fit is refused.
                The default accepts any JSON value, and bytes, which are stored unchanged; None means the
                same.
            lease: how long a delivery may be held before it must be settled or extended.
            declared: the queue's policies (`redelivery`, `dead_letter`, `expiry`) and limits; see
                `rq_dlq.policy.Declared`. They are written to Redis and stay until others are declared. The
                remaining fields come from the map of policies, then from the defaults.

        Returns:
            The queue.

        Raises:
            InvalidInput: a name, type, duration or policy is not valid.

        Examples:
            >>> mails = broker.queue("mails", redelivery=RedeliveryPolicy(max_redeliveries=3), rate="100/s")
            >>> mails.send({"to": "anna"}, id="mail-7")
            'mail-7'
        """
        return Queue(self, self.settings.queue(name, type, lease, declared, self._client))

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        queue: str | Queue[Any] | None = ...,
        name: str | None = ...,
        concurrency: int | None = ...,
        timeout: Duration | None = ...,
        ack_each: bool | None = ...,
        deadline: bool | None = ...,
        every: Duration | None = ...,
        cron: str | None = ...,
        timezone: str = ...,
        missed: Missed = ...,
        key: str | Callable[..., str | None] | None = ...,
        dependency: str | Callable[..., str | None] | None = ...,
        result: bool = ...,
        unique: bool | Callable[..., Any] = ...,
        unique_for: Duration | None = ...,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    @answering
    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        queue: str | Queue[Any] | None = None,
        name: str | None = None,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        ack_each: bool | None = None,
        deadline: bool | None = None,
        every: Duration | None = None,
        cron: str | None = None,
        timezone: str = USUAL_ZONE,
        missed: Missed = "last",
        key: str | Callable[..., str | None] | None = None,
        dependency: str | Callable[..., str | None] | None = None,
        result: bool = False,
        unique: bool | Callable[..., Any] = False,
        unique_for: Duration | None = None,
    ) -> Task[P, R] | Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function a task: its calls can be sent to a queue, and `broker.run()` runs them.

        The annotations of its parameters determine which arguments can be sent, like the type of a queue. A
        parameter annotated with `Delivery` receives the delivery and is not sent; give it the default None.

        Args:
            function: the function, when this is used as a decorator without parentheses.
            queue: the queue's name, or a queue object if it has its own lease or policies. Tasks may share a
                queue: pass the object to one of them, or the same object to each. None: a queue named like
                the task.
            name: the task's name in messages; None: the function's name.
            concurrency: how many calls run concurrently in one process, of all tasks of the queue; None: the
                value of another task of the queue, or 1.
            timeout: the limit for one call, for all tasks of the queue; None: the value of another task of
                the queue, or no limit.
            ack_each, deadline: see `Queue.handler`, for all tasks of the queue; None: the value of another
                task of the queue, or False.
            every, cron, timezone, missed: a schedule by which the workers of the queue send the task without
                arguments; see `Queue.schedule`. A worker writes this schedule when it starts.
            key, dependency: the key and the dependency of each call (`Queue.send`), or a function that
                computes it from the call's arguments: `lambda user: f"user-{user}"` gets the argument `user`,
                however it was passed. A function with other names gets all as they were passed.
            result: keep the return values of the calls, for `Sent.result` (`Queue.send`).
            unique: True: a call is sent once while the queue has it: its id follows from the task's name and
                the arguments, with their defaults. A function, as for `key`: from what that returns. A
                dead call is redriven by the next send.
            unique_for: with `unique`, how long a call is known since its first send, by the server's clock,
                even after its ack; None: until it is done.

        Returns:
            The task; with parentheses, a decorator.

        Raises:
            InvalidInput: the schedule is not valid.
            ConfigurationError: this is not a function, it conflicts with another task or handler of the
                queue, or `unique_for` is without `unique`.

        Examples:
            >>> @broker.task(queue="sums", timeout="20s")
            ... def add(a: int, b: int) -> None:
            ...     print(a + b)
            >>> add(1, 2)  # in this process
            3
            >>> sent = add.send(1, 2)  # in a worker
        """
        rule = rule_of(cron, every, timezone, missed)
        once = unique_of(unique, unique_for)
        running = RunSettings(concurrency, timeout, ack_each, deadline)

        def make(function: Callable[P, R]) -> Task[P, R]:
            call = TaskFunction(
                function, name, rule, {"key": key, "dependency": dependency}, result=result, **once
            )
            place = self._place(call.name if queue is None else queue)
            named = queue is None or isinstance(queue, str)
            return Task(call, register(place, call, running, named=named))

        return make if function is None else make(function)

    def _place(self, queue: str | Queue[Any]) -> Queue[Any]:
        """The queue of a task, whose bodies are arguments."""
        if isinstance(queue, str):
            return self.queue(queue)
        core = work_of(queue, self)
        return self.queue(core.name, lease=core.lease / 1000, **core.given)

    @cached_property
    def policies(self) -> Policies:
        """The map of policies in Redis: which settings apply to which queues."""
        return Policies(self)

    def dependency(self, dependency: str) -> DependencyOfAll:
        """A dependency of messages, such as "payments", in all queues.

        Args:
            dependency: its name, as messages carry it: text of at most 200 bytes.

        Returns:
            The dependency, with its verbs for all queues.

        Examples:
            >>> broker.dependency("payments").pause(until="10m")
            2
        """
        return DependencyOfAll(dependency, self)

    def gather(self, *, then: tuple[Any, Any], within: Duration = "1d") -> Gather:
        """A gather: when all of a number of messages have ended, another one is delivered.

        Args:
            then: that message: a pair of a queue and a body, or of a task and its arguments, as in
                `Delivery.ack`. A `Message` as the body, and the task's `options`, say more.
            within: how long it waits at most; then it is delivered although children are open.

        Returns:
            The gather, a context manager whose block sends the children.

        Raises:
            InvalidInput: `then` is not such a pair, or has a delay or a ttl; or `within` is not valid.
            InvalidMessage: the arguments do not fit the task.

        Examples:
            >>> with broker.gather(then=(mails, {"to": "anna"}), within="1h") as gather:
            ...     sent = gather.send(orders, {"total": 7.0})
        """
        return Gather(self, gather_of(addressed(then, self, "then=(reports, body)"), within))

    def gathers(self, *, queue: str | None = None) -> list[GatherStatus]:
        """The gathers whose `then` waits for their children.

        Args:
            queue: only those with their `then` in this queue; None: all.

        Returns:
            The gathers, the oldest first.

        Raises:
            InvalidName: it is not a valid name.

        Examples:
            >>> with broker.gather(then=(mails, {"to": "anna"})) as gather:
            ...     sent = gather.send(orders, {"total": 7.0})
            >>> [(one.queue, one.open) for one in broker.gathers()]
            [('mails', 1)]
        """
        named = None if queue is None else self.settings.naming.resolve(queue).family
        return self._run(reading.all_statuses(self.settings.namespace, named))

    def queues(self) -> list[str]:
        """The sorted names of all queues that were ever used.

        Returns:
            The names.

        Examples:
            >>> broker.queues()
            ['mails', 'orders']
        """
        return self._run(self._step(queue_calls.registered(self.settings.namespace)))

    def schedules(self) -> list[Schedule]:
        """The schedules of all queues, with the next tick of each and the last message it sent.

        A queue that is damaged, or whose cluster node does not answer, is logged and left out.

        Returns:
            The schedules.

        Examples:
            >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
            >>> [(one.queue, one.name, one.rule) for one in broker.schedules()]
            [('orders', 'nightly', '0 3 * * *')]
        """
        return self._run(schedules.read(self.settings.namespace))

    def overview(self, before: Overview | None = None) -> Overview:
        """Read the counts, the groups of dead letters and the redrives of all queues.

        A queue that is damaged, or whose cluster node does not answer, is listed in `unreachable`; the others
        are read.

        Args:
            before: an earlier overview. Its groups of a queue are reused while they are less than five
                seconds old, or less than a minute old if the queue's counts have not changed.

        Returns:
            The overview; pass it to the next call as `before`.

        Raises:
            InvalidInput: `before` is not an overview.

        Examples:
            >>> overview = broker.overview()
            >>> [(queue.stats.name, queue.stats.dead) for queue in overview.queues]
            [('mails', 1), ('orders', 0)]
        """
        settings = self.settings
        codec: Codec[Any] = Codec(Any, settings.max_message_bytes)
        return self._run(overview.overview(settings.namespace, codec, before))

    def workers(self) -> list[ProcessReport]:
        """The worker processes of the namespace: their queues, start times and held messages.

        Each process stores a report every 5 s. A killed process is "silent" for some time, then forgotten.

        Returns:
            A report for each process.

        Examples:
            >>> for process in broker.workers():
            ...     print(process.process, process.state, process.held)
        """
        return self._run(processes.workers(self.settings.namespace))

    def audit(self, limit: int = 100, *, queue: str | None = None) -> list[AuditRecord]:
        """The audit: what operators did to messages, queues, schedules and policies; the newest first.

        Args:
            limit: the most records to read. Each queue keeps about its last thousand.
            queue: only records of this queue; None: of all queues.

        Returns:
            The records, the newest first.

        Raises:
            InvalidInput: the limit or the name is not valid.

        Examples:
            >>> orders.purge(all=True, by="anna")
            1
            >>> for record in broker.audit(1):
            ...     print(record.by, record.did, record.number, record.queue)
            anna purged 1 orders
        """
        named = None if queue is None else self.settings.naming.resolve(queue).family
        return self._run(audit.audit(self.settings.namespace, limit, named))

    def _run(self, steps: Steps[R]) -> R:
        connections = self._connections or self._connected()
        return connections.run(steps)

    def _leave(self, queue: QueueState[Any], steps: Steps[R], error: BaseException | None) -> R | None:
        """Run the steps at the end of a block; None: they failed, and the block's own error propagates."""
        return self._try_once(queue, steps) if cut_off.is_cut_off(error) else self._run(steps)

    def _try_once(self, queue: QueueState[Any], steps: Steps[R]) -> R | None:
        """Run the steps before an error goes on, once and briefly; None: they failed, which is logged."""
        try:
            return (self._connected()).run_once(steps)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the error goes on
            cut_off.log_failure(queue, failure)
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
