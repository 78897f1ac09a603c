"""What the brokers of both colours have in common: settings, the address, the embedded server."""

from __future__ import annotations

import logging
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rq_dlq._redis import FAIL_FAST, Retries, masked
from rq_dlq._scripts import Scripts
from rq_dlq.codec import Ids
from rq_dlq.errors import ConfigurationError
from rq_dlq.settings import BrokerSettings

if TYPE_CHECKING:
    from rq_dlq._work import Steps
    from rq_dlq.embedded import Endpoint

logger = logging.getLogger("rq_dlq")


class BrokerBase:
    """Queues on one Redis. Connects when it is first used; pickles as its settings.

    Args:
        url: redis://…, rediss://…, unix://… or redis+sentinel://…, of a cluster that of any node; None:
            $RQ_DLQ_URL, else the embedded server (it says so).
        settings: everything else about it, as its durability; keyword arguments of BrokerSettings do as well.
        pool: a redis-py connection pool to use instead of a URL (such a broker does not pickle).
        scripts: the Lua files; tests pass some with another clock.
        retries: how long a call is repeated while Redis does not answer.

    Raises:
        ConfigurationError: an option that there is not.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: BrokerSettings | None = None,
        pool: Any = None,
        scripts: Scripts | None = None,
        retries: Retries = FAIL_FAST,
        **options: Any,
    ) -> None:
        self.settings = settings or _settings(url, options)
        self._pool = pool
        self._scripts = scripts or Scripts()
        self._retries = retries
        self._ids = Ids()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Broker {self.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pool is not None:
            message = "a broker made from a connection pool cannot cross processes: give it a URL"
            raise ConfigurationError(message)
        return (_again, (type(self), self.settings, self._retries))

    @property
    def _known_url(self) -> str | None:
        return "the given pool" if self._pool else self.settings.url or os.environ.get("RQ_DLQ_URL")

    @property
    def url(self) -> str:
        """Where it is, without the password."""
        return masked(self._known_url or "the embedded server")

    def address(self) -> str:
        """The URL to connect to, with its password; starts the embedded server where there is no other."""
        return self._known_url or self._embedded.url

    @cached_property
    def _embedded(self) -> Endpoint:
        """The embedded server of this user, started when there is no other."""
        endpoint = _ensure()
        logger.warning("%s", endpoint.describe())
        return endpoint

    def _connection_settings(self) -> dict[str, Any]:
        """The address, the scripts, the pool; and what starts an embedded server anew that has died."""
        return {
            "url": self.address(),
            "scripts": self._scripts,
            "pool": self._pool,
            "revive": None if self._known_url else _ensure,
        }

    @staticmethod
    def _step(call: Any) -> Steps[Any]:
        return (yield call)


def _ensure() -> Endpoint:
    from rq_dlq.embedded import ensure  # noqa: PLC0415 - only who has no server needs it

    return ensure()


def _settings(url: str | None, options: dict[str, Any]) -> BrokerSettings:
    try:
        return BrokerSettings(url=url, **options)
    except TypeError:
        known = ", ".join(name for name in BrokerSettings.__dataclass_fields__ if name != "url")
        message = f"unknown option {', '.join(options)}: a broker has {known}"
        raise ConfigurationError(message) from None


def _again(kind: type[BrokerBase], settings: BrokerSettings, retries: Retries) -> BrokerBase:
    return kind(settings=settings, retries=retries)
