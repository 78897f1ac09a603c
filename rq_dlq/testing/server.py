"""The servers for tests: fakeredis in this process, or a Redis whose database they may flush."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis

from rq_dlq._redis.urls import masked
from rq_dlq.errors import BrokerUnavailable, ConfigurationError
from rq_dlq.testing.clock import Clock


@dataclass(frozen=True)
class Server:
    """A server with a clock for tests.

    Attributes:
        url: its address, or its name if it has none.
        client: a plain client of the server.
        clock: the clock for the verbs `MOVED_CLOCK`.
        fake: fakeredis' server; None: a real server.
    """

    url: str
    client: Any
    clock: Clock
    fake: Any

    def pool(self, *, awaiting: bool) -> Any:
        """A redis-py pool to use instead of the URL; None: use the URL."""
        if self.fake is None:
            return None
        import fakeredis  # noqa: PLC0415 - an extra, found before

        kind = fakeredis.FakeAsyncRedis if awaiting else fakeredis.FakeRedis
        return kind(server=self.fake).connection_pool


@contextmanager
def server_at(url: str | None, process: int = 0) -> Generator[Server]:
    """An empty server: the one at the URL, or fakeredis. Its clock shows the time of its start.

    Args:
        url: the server's URL; None: fakeredis.
        process: the number of this process among concurrent test processes, from 0. Each has its own
            database: that of the URL, the one before it, and so on.

    Raises:
        ConfigurationError: the database is not empty or does not exist, or fakeredis is not installed.
        BrokerUnavailable: the server does not answer.
    """
    fake = None
    if url is None:
        library = _fake()
        fake = library.FakeServer()
        client = library.FakeRedis(server=fake)
    else:
        url, client = _empty(url, process)
    seconds, microseconds = client.time()
    clock = Clock(client, seconds * 1000 + microseconds // 1000)
    try:
        yield Server(url or "redis://fake-server-of-the-test", client, clock, fake)
    finally:
        client.flushdb()
        client.close()


def _empty(url: str, process: int) -> tuple[str, Any]:
    try:
        url = _of_process(url, process)
        client = redis.Redis.from_url(url)
        used = client.dbsize()
    except (redis.RedisError, ValueError) as error:
        raise BrokerUnavailable(f"cannot test on {masked(url)}: {error}") from None
    if used:
        message = (
            f"the database at {masked(url)} has {used} keys, and tests flush it: use an empty one, such as "
            "redis://localhost/15, and one for each run of pytest"
        )
        raise ConfigurationError(message)
    return url, client


def _of_process(url: str, process: int) -> str:
    """The URL with the database of this process."""
    if not process:
        return url
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    path = "0" if parts.scheme == "unix" else parts.path.strip("/") or "0"
    first = int(query.pop("db", path))
    if first < process:
        message = (
            f"{process + 1} processes of pytest need as many databases, and {masked(url)} is number {first}: "
            "use a higher one, such as redis://localhost/15, or fewer processes"
        )
        raise ConfigurationError(message)
    address = url.partition("?")[0]
    if parts.scheme == "unix":
        query["db"] = str(first - process)
    else:
        address = f"{parts.scheme}://{parts.netloc}/{first - process}"
    return "?".join(filter(None, (address, urlencode(query))))


def _fake() -> Any:
    if not all(map(find_spec, ("fakeredis", "lupa"))):  # lupa runs its scripts
        message = (
            "the fixture rq_dlq needs fakeredis with Lua: `pip install 'rq-dlq[testing]'`, or a Redis:"
            " `pytest --rq-dlq-redis=redis://localhost/15`"
        )
        raise ConfigurationError(message)
    import fakeredis  # noqa: PLC0415

    return fakeredis
