"""The servers that tests run on: fakeredis in this process, or a Redis whose database they may flush."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import redis

from rq_dlq._redis.urls import masked
from rq_dlq.errors import BrokerUnavailable, ConfigurationError
from rq_dlq.testing.clock import Clock


@dataclass(frozen=True)
class Server:
    """A server whose clock is moved by hand.

    Attributes:
        url: its address, or its name.
        client: a plain client of it.
        clock: for the scripts `MOVED_CLOCK`.
        fake: fakeredis' server; None: it is a real one.
    """

    url: str
    client: Any
    clock: Clock
    fake: Any

    def pool(self, *, awaiting: bool) -> Any:
        """A pool of redis-py to use instead of the URL; None: there is none."""
        if self.fake is None:
            return None
        import fakeredis  # noqa: PLC0415 - it was found before

        kind = fakeredis.FakeAsyncRedis if awaiting else fakeredis.FakeRedis
        return kind(server=self.fake).connection_pool


@contextmanager
def server_at(url: str | None) -> Generator[Server]:
    """An empty server: the one at the URL, else a fake one. Its clock stands at the time of its start.

    Raises:
        ConfigurationError: the database is not empty, or there is no fakeredis.
        BrokerUnavailable: the server does not answer.
    """
    fake = None
    if url is None:
        library = _fake()
        fake = library.FakeServer()
        client = library.FakeRedis(server=fake)
    else:
        client = _empty(url)
    seconds, microseconds = client.time()
    clock = Clock(client, seconds * 1000 + microseconds // 1000)
    try:
        yield Server(url or "redis://fake-server-of-the-test", client, clock, fake)
    finally:
        client.flushdb()
        client.close()


def _empty(url: str) -> Any:
    try:
        client = redis.Redis.from_url(url)
        used = client.dbsize()
    except (redis.RedisError, ValueError) as error:
        raise BrokerUnavailable(f"cannot test on {masked(url)}: {error}") from None
    if used:
        message = (
            f"the database at {masked(url)} has {used} keys, and tests flush it: use an empty one, such as "
            "redis://localhost/15"
        )
        raise ConfigurationError(message)
    return client


def _fake() -> Any:
    if not all(map(find_spec, ("fakeredis", "lupa"))):  # lupa runs its scripts
        message = (
            "the fixture rq_dlq needs fakeredis with Lua: `pip install 'rq-dlq[testing]'`, or a Redis:"
            " `pytest --rq-dlq-redis=redis://localhost/15`"
        )
        raise ConfigurationError(message)
    import fakeredis  # noqa: PLC0415

    return fakeredis
