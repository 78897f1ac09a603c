"""A wait ends in time, though Redis ends it on its next tick unless something wakes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import exceptions

from rq_dlq._redis.blocking.link import NUDGES, replies_to
from tests.connections.conftest import Opening
from tests.servers import Server, free_port
from tests.tables import each_row

TICK = 1.0  # seconds, by hz 1
WAIT = 0.11
BLPOP = (b"BLPOP", "a", WAIT)
SILENCE = exceptions.TimeoutError("Timeout reading from socket")
REFUSED = exceptions.ResponseError("NOPERM this user has no permissions to run the 'ping' command")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It ticks once a second, and nobody else wakes it."""
    with Server(tmp_path_factory.mktemp("waits"), "--hz", "1", port=free_port()) as server:
        server.client().execute_command("ACL", "SETUSER", "no-ping", "on", "nopass", "~*", "+@all", "-ping")
        yield server


@pytest.mark.parametrize("url", ["{socket}", "{socket}?protocol=3", "{tcp}", "{refused}"])
async def test_a_wait_ends_before_the_tick(url: str, opened: Opening, server: Server) -> None:
    """A wait that begins at a tick would last until the next one, so two short ones in turn say it."""
    places = {
        "socket": server.url,
        "tcp": f"redis://127.0.0.1:{server.port}",
        "refused": f"unix://no-ping:x@{server.socket}",
    }
    async with opened(url.format(**places)) as broker:
        queue = broker.queue("a")
        spans: list[float] = []
        while len(spans) < 2 or max(spans[-2:]) > TICK / 2:
            assert len(spans) < 20, spans
            began = time.monotonic()
            assert await queue.claim(wait=WAIT) == []
            spans.append(time.monotonic() - began)
        sent = await queue.send("x")  # the connection is in order
        (delivery,) = await queue.claim()
        assert delivery.id == sent
        await delivery.ack()


class Scripted:
    """A connection that reads what it is told to, one after the other."""

    def __init__(self, *read: Any) -> None:
        self.socket_timeout, self.timeouts = 5.0, list[float]()
        self.sent, self.read = list[bytes](), list(read)

    def send_packed_command(self, command: list[bytes], *, check_health: bool = True) -> None:
        assert check_health is (not self.sent), "a health check would read the reply to the wait"
        self.sent += command

    def read_response(self, **_: Any) -> Any:
        self.timeouts.append(self.socket_timeout)
        reply = self.read.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


@each_row("last", [b"PONG", REFUSED])
@each_row("nudges", range(len(NUDGES) + 1))
@each_row("reply", [None, [b"a", b"1"], exceptions.ResponseError("UNBLOCKED")])
def test_each_nudge_has_a_reply(reply: Any, nudges: int, last: Any) -> None:
    connection = Scripted(*[SILENCE] * nudges, reply, *[last] * nudges)
    (read,) = replies_to(connection, [BLPOP])
    assert read is reply
    assert connection.read == []
    assert len(connection.sent) == 1 + nudges
    assert connection.timeouts[: nudges + 1] == [WAIT + NUDGES[0], *NUDGES[1:], 5.0][: nudges + 1]
    assert connection.socket_timeout == 5.0


def test_a_nudge_without_a_reply_ends_as_a_connection_that_is_lost() -> None:
    with pytest.raises(exceptions.TimeoutError):
        replies_to(Scripted(SILENCE, None, SILENCE), [BLPOP])
