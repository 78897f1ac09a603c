"""What servers say, as the error of each version of redis-py, and what we say."""

from __future__ import annotations

from typing import Any

import pytest
from redis import exceptions

from rq_dlq import BrokerRefused, BrokerUnavailable, CrossSlot
from rq_dlq._redis.blocking.link import replies_to
from rq_dlq._redis.errors import Passing, code_of, named, refusal, unavailable
from tests.tables import each_row

WRAPPED = "ERR Error running script (call to f_1): @user_script:5: @user_script: 5: -"
SAID: list[tuple[str, type[Exception], str]] = [
    ("MISCONF Redis is configured to save RDB snapshots", BrokerRefused, "free disk space"),
    ("OOM command not allowed when used memory > 'maxmemory'.", BrokerRefused, "raise maxmemory"),
    ("WRONGTYPE Operation against a key", BrokerRefused, "another namespace"),
    ("CROSSSLOT Keys in request don't hash to the same slot", CrossSlot, "the same hash tag"),
    ("READONLY You can't write against a read only replica.", Passing, "failover"),
    ("LOADING Redis is loading the dataset in memory", Passing, "loading its data"),
    ("MASTERDOWN Link with MASTER is down", Passing, "lost its master"),
    ("NOREPLICAS Not enough good replicas to write.", Passing, "min-replicas-to-write"),
    ("BUSY Redis is busy running a script.", Passing, "SCRIPT KILL"),
    ("CLUSTERDOWN Hash slot not served", Passing, "--cluster check"),
    ("CLUSTERDOWN The cluster is down", Passing, "too few of its masters reach each other"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", Passing, "is moving"),
    ("MOVED 15495 127.0.0.1:7001", Passing, "127.0.0.1:7001"),
    ("ASK 15495 127.0.0.1:7001", Passing, "127.0.0.1:7001"),
    ("NOSCRIPT No matching script.", Passing, "SCRIPT FLUSH"),
    ("UNBLOCKED client unblocked via CLIENT UNBLOCK", Passing, "try again"),
    ("ERR unknown command", BrokerRefused, "unknown command"),
    ("BUSYGROUP Consumer Group name already exists", BrokerRefused, "BUSYGROUP"),
]


@each_row(("text", "kind", "advice"), SAID)
@each_row("form", ["plain", "named", "wrapped"])
def test_what_a_server_says(form: str, text: str, kind: type[Exception], advice: str) -> None:
    """redis-py may have a class for it or not; before Redis 7 a script wraps what its commands are told."""
    error: Exception = exceptions.ResponseError(WRAPPED + text if form == "wrapped" else text)
    told = refusal(named(error) if form == "named" else error)
    assert type(told) is kind
    assert advice in str(told)


@each_row(
    ("text", "kind"),
    [
        ("MOVED 15495 127.0.0.1:7001", exceptions.MovedError),
        ("ASK 15495 ::1:7001", exceptions.AskError),
        ("CLUSTERDOWN The cluster is down", exceptions.ClusterDownError),
        ("TRYAGAIN Multiple keys", exceptions.TryAgainError),
    ],
)
def test_errors_have_the_classes_of_new_versions(text: str, kind: Any) -> None:
    """Up to redis-py 7 only its cluster client has them."""
    error = named(exceptions.ResponseError(text))
    assert type(error) is kind
    assert code_of(error) == text.split(" ", maxsplit=1)[0]


class Loading:
    """A connection to a server that is loading its data, as redis-py shows it."""

    def send_packed_command(self, command: Any, **options: Any) -> None:
        del command, options

    def read_response(self, **options: Any) -> None:
        del options
        raise exceptions.BusyLoadingError("Redis is loading the dataset in memory")


def test_a_server_that_is_loading_its_data_has_refused() -> None:
    """redis-py shows that as a broken connection, which would leave open whether the call was done."""
    with pytest.raises(Passing, match="loading its data"):
        replies_to(Loading(), [(b"PING",)])


def test_an_unknown_error_stays_as_it_is() -> None:
    error = exceptions.ResponseError("ERR no such thing")
    assert named(error) is error


@each_row(
    ("error", "advice"),
    [
        (exceptions.ConnectionError("max number of clients reached"), "raise maxclients"),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "wait until it has"),
        (exceptions.ConnectionError("Error 111 connecting. Connection refused."), "start Redis"),
        (exceptions.TimeoutError("Timeout reading from socket"), "start Redis"),
        (exceptions.ConnectionError("Too many connections"), "raise max_connections in the URL"),
        (exceptions.ConnectionError("No connection available."), "raise max_connections in the URL"),
    ],
)
def test_a_connection_that_does_not_come_about(error: Exception, advice: str) -> None:
    """What the server says to a new client is told, instead of that there is none."""
    told = unavailable("redis://user:secret@host", error)
    assert type(told) is BrokerUnavailable
    assert advice in str(told)
    assert "secret" not in str(told)
