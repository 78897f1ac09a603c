"""The common part of the brokers of both colours: settings, the address, the embedded server."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq._redis import Retries, masked
from rq_dlq._scripts import JOINED, Joined
from rq_dlq.client.handlers import Handler, Lifespan, check_lifespan
from rq_dlq.client.settings import BrokerSettings, known_url, retries_of
from rq_dlq.core.batches.by_hand import HandClaims
from rq_dlq.errors import ConfigurationError
from rq_dlq.errors.guesses import Answering, part_of, sentence_for
from rq_dlq.values.cached import cached_property
from rq_dlq.values.durations import shown
from rq_dlq.values.observer import Observer

if TYPE_CHECKING:
    from rq_dlq._redis.waiting import Waiting
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.embedded import Endpoint

B = TypeVar("B", bound="BrokerBase")
L = TypeVar("L", bound=Lifespan)
S = TypeVar("S", bound=Observer)
logger = logging.getLogger("rq_dlq")


@part_of("Broker")
class BrokerBase(Answering):
    """A broker before it connects; `Broker` documents the arguments."""

    _lifespan: Lifespan | None = None

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: BrokerSettings | None = None,
        pool: Any = None,
        verbs: Joined = JOINED,
        retries: Retries | None = None,
        **options: Any,
    ) -> None:
        self.settings = settings or _settings(url, options)
        self._pool = pool
        self._verbs = verbs
        self._retries = retries or retries_of(self.settings.patience)
        self._client = self.settings._client()
        self._hand_claims = HandClaims()
        self._import()

    def _import(self) -> None:
        """Import the modules of the first use now: later, another thread might fork during the import."""

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Broker {self.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pool is not None:
            message = (
                "a broker made from a connection pool cannot be pickled for another process: make it from a "
                "URL"
            )
            raise ConfigurationError(message)
        return (_again, (type(self), self.settings, self._retries))

    @cached_property
    def _handlers(self) -> list[Handler]:
        """The registered handlers and tasks."""
        return []

    @cached_property
    def _waiting(self) -> Waiting:
        """The callers that wait for results in this process."""
        from rq_dlq._redis.waiting import Waiting  # noqa: PLC0415 - only needed for waiting callers

        return Waiting()

    def lifespan(self, function: L, /) -> L:
        """Register a function that opens and closes the handlers' shared resources, such as a database pool.

        A worker process enters it once, before the first message, and leaves it after the last one; an async
        lifespan runs in the event loop of the async handlers. If it raises an error, the worker ends with
        that error.

        Args:
            function: a `def` or `async def` that takes no arguments and yields once, or already is a context
                manager. The yielded value is the `state` of each delivery.

        Returns:
            The function, unchanged.

        Raises:
            ConfigurationError: the broker already has a lifespan, or this is not such a function.

        Examples:
            >>> @broker.lifespan
            ... def resources():
            ...     yield {"shop": "Tea & Cake"}  # the `state` of each delivery
        """
        if self._lifespan is not None:
            message = "the broker already has a lifespan: enter both context managers in one function"
            raise ConfigurationError(message)
        check_lifespan(function)
        self._lifespan = function
        return function

    def observe(self, observer: S, /) -> S:
        """Register an observer of the messages that this broker and its workers handle in this process.

        Pickling the broker drops its observers: call this in the process that uses the broker.

        Args:
            observer: an instance of a subclass of `Observer` that overrides some of its methods.

        Returns:
            The observer.

        Raises:
            ConfigurationError: it is not an observer.

        Examples:
            >>> class Log(Observer):
            ...     def settled(self, settled):
            ...         print(settled.queue, settled.outcome)
            >>> log = broker.observe(Log())
        """
        if not isinstance(observer, Observer):
            raise ConfigurationError(
                f"{shown(observer)} is not an observer: pass an instance of a subclass of Observer"
            )
        self._client.observers.append(observer)
        return observer

    @property
    def _known_url(self) -> str | None:
        return "the given pool" if self._pool else known_url(self.settings.url)

    @property
    def url(self) -> str:
        """The address of the server, without the password.

        Examples:
            >>> Broker("redis://:secret@localhost:6379/0").url
            'redis://:***@localhost:6379/0'
        """
        return masked(self._known_url or "the embedded server")

    def _address(self) -> str:
        """The URL to connect to, with its password; starts the embedded server if no URL is set."""
        return self._known_url or self._embedded.url

    @cached_property
    def _embedded(self) -> Endpoint:
        endpoint = _ensure()
        logger.warning("%s", endpoint.describe())
        return endpoint

    def _twin(self, kind: type[B], retries: Retries) -> B:
        """This broker in the other colour.

        Raises:
            ConfigurationError: this one was made from a connection pool.
        """
        if self._pool is not None:
            message = (
                "the handlers need a blocking and an async broker: make this one from a URL, not from a pool"
            )
            raise ConfigurationError(message)
        settings = replace(self.settings, url=self._known_url)
        twin = kind(settings=settings, verbs=self._verbs, retries=retries)
        twin._client.observers = self._client.observers
        if self._known_url is None:
            vars(twin)["_embedded"] = self._embedded  # without a URL, so that the twin can restart it as well
        return twin

    def _connection_settings(self) -> dict[str, Any]:
        """The arguments of the connections; `revive` restarts an embedded server that died."""
        return {
            "url": self._address(),
            "verbs": self._verbs,
            "pool": self._pool,
            "revive": None if self._known_url else _ensure,
        }

    @staticmethod
    def _step(call: Any) -> Steps[Any]:
        return (yield call)


def _ensure() -> Endpoint:
    from rq_dlq.embedded import ensure  # noqa: PLC0415 - only needed if there is no other server

    return ensure()


def _settings(url: str | None, options: dict[str, Any]) -> BrokerSettings:
    try:
        return BrokerSettings(url=url, **options)
    except TypeError:
        known = ", ".join(name for name in BrokerSettings.__dataclass_fields__ if name != "url")
        known = sentence_for(options) or f"the options are {known}"
        message = f"unknown option {', '.join(options)}: {known}"
        raise ConfigurationError(message) from None


def _again(kind: type[BrokerBase], settings: BrokerSettings, retries: Retries) -> BrokerBase:
    return kind(settings=settings, retries=retries)
