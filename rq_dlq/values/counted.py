"""The errors that count against a dependency: failures that mean that it is down."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rq_dlq.values.failure import behind, causes_of, class_name

if TYPE_CHECKING:
    from collections.abc import Iterable

UNREACHABLE: Final[tuple[str, ...]] = (
    "ConnectionError", "TimeoutError", "socket.gaierror", "ssl.SSLError", "http.client.IncompleteRead",
    "aiohttp.client_exceptions.ClientConnectionError", "aiohttp.client_exceptions.ClientPayloadError",
    "asyncpg.exceptions.CannotConnectNowError", "asyncpg.exceptions.PostgresConnectionError",
    "botocore.exceptions.ConnectionError", "botocore.exceptions.HTTPClientError",
    "elastic_transport.ConnectionError", "elastic_transport.ConnectionTimeout",
    "google.api_core.exceptions.BadGateway", "google.api_core.exceptions.GatewayTimeout",
    "google.api_core.exceptions.RetryError", "google.api_core.exceptions.ServiceUnavailable",
    "grpc.RpcError",
    "httpx.NetworkError", "httpx.ProxyError", "httpx.RemoteProtocolError", "httpx.TimeoutException",
    "kombu.exceptions.OperationalError", "pika.exceptions.AMQPConnectionError",
    "psycopg.OperationalError", "psycopg2.OperationalError", "pymongo.errors.ConnectionFailure",
    "pymysql.err.OperationalError", "sqlalchemy.exc.OperationalError", "sqlalchemy.exc.TimeoutError",
    "redis.exceptions.ClusterDownError", "redis.exceptions.ConnectionError", "redis.exceptions.TimeoutError",
    "requests.exceptions.ChunkedEncodingError", "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "smtplib.SMTPConnectError", "smtplib.SMTPServerDisconnected", "stripe.APIConnectionError",
    "urllib3.exceptions.MaxRetryError", "urllib3.exceptions.NewConnectionError",
    "urllib3.exceptions.ProtocolError", "urllib3.exceptions.ProxyError", "urllib3.exceptions.SSLError",
    "urllib3.exceptions.TimeoutError",
)  # fmt: skip
"""`Breaker.UNREACHABLE`. They are the names that the classes have themselves, so no client is imported."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The errors that count against a dependency; without any, all that charge a message.

    Attributes:
        classes: the classes of such errors.
        names: the names of such classes, with their modules unless they are built in: the module that defines
            a class, or one that also has it ("redis.ConnectionError").
    """

    classes: tuple[type[BaseException], ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, errors: Iterable[type[BaseException] | str]) -> Counted:
        """Those of `Breaker(errors=…)`."""
        given = [*errors]
        classes = tuple(one for one in given if isinstance(one, type))
        return cls(classes, frozenset(one for one in given if isinstance(one, str)))

    def __bool__(self) -> bool:
        return bool(self.classes or self.names)

    def has(self, error: BaseException | str | None) -> bool:
        """Whether an error is one of them, by a class or a base class, or has one among its causes."""
        if not self:
            return True
        if not isinstance(error, BaseException):
            return False
        error = behind(error)
        return any(map(self._is_one, (error, *causes_of(error))))

    def _is_one(self, error: BaseException) -> bool:
        kinds = type(error).__mro__
        if isinstance(error, self.classes) or not self.names.isdisjoint(map(class_name, kinds)):
            return True
        return not {*kinds}.isdisjoint(filter(None, map(_loaded, self.names)))


def _loaded(name: str) -> type[BaseException] | None:
    """The class of errors that a module which was imported has under a name; None: there is none."""
    module, _, own = name.rpartition(".")
    found = vars(sys.modules[module]).get(own) if module in sys.modules else None
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
