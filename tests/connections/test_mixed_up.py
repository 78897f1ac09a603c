"""Two connections on one socket, after something else closed the descriptor of one: replies are mixed up."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq._redis.connection import socket_of
from tests.behaviour.faults import change_talk
from tests.behaviour.helpers import counts

OTHERS = [[1], [1, 1, 1], [], 5, b"OK", None]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("verb", ["claim", "ack", "nack", "extend"])
async def test_a_reply_to_another_call_is_a_lost_reply(verb: str, other: Any, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send_many(range(2))
    held = await queue.claim(2)
    await queue.extend(held)  # the server knows the scripts, and the queue is open
    if verb == "claim":
        await queue.release(held)
    left = [other]

    def mixed_up(replies: list[Any]) -> list[Any]:
        return [left.pop()] if left and len(replies) == 1 else replies

    await change_talk(broker, lambda commands: commands, mixed_up)
    if verb == "claim":
        assert len(await queue.claim(2)) == 2
    elif verb == "extend":
        assert await queue.extend(held) == [True, True]
    else:
        assert len(await getattr(queue, verb)(held)) == 2
    assert left == []
    assert sum((await counts(queue)).values()) == (0 if verb == "ack" else 2)


@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_the_connections_that_were_mixed_up_are_closed(broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send(1)
    held = await queue.claim()
    await queue.extend(held)
    bare = getattr(broker, "inner", broker)._connections
    before = [socket_of(connection) for connection in bare._link._idle._all]
    assert before
    left = [[1]]
    await change_talk(broker, lambda commands: commands, lambda replies: [left.pop()] if left else replies)
    await queue.extend(held)
    assert not {*before} & {socket_of(connection) for connection in bare._link._idle._all}
