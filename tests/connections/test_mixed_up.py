"""Two connections on one socket, after something else closed the descriptor of one: replies are mixed up."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from rq_dlq import InvalidInput, RedeliveryPolicy
from rq_dlq._redis.connection import socket_of
from rq_dlq.core.steps.call import Call, Command, WrongReply
from tests.behaviour.faults import change_talk
from tests.behaviour.helpers import counts
from tests.model.world import World
from tests.tables import each_row
from tests.variants import both_colours
from tests.verbs import VERBS, Verb

pytestmark = both_colours("connections are given back and closed by the files `own.py`")

OTHERS = [[1], [1, 1, 1], [], 5, b"OK", None]
MORE = [b"", [b"a"], [b"a", b"b", b"c"], [None, None], [[b"a", [b"b"]]], [b"x"] * 11, [*range(11)]]


@each_row(("name", "other"), zip("abcdef", OTHERS, strict=True))
@pytest.mark.parametrize("verb", ["claim", "ack", "nack", "extend"])
@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_a_reply_to_another_call_is_a_lost_reply(verb: str, name: str, other: Any, broker: Any) -> None:
    queue = broker.queue(name)
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


@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_a_connection_that_is_closed_while_it_is_made_is_made_again(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a thread that has found connections mixed up, and closes all of the pool."""
    await broker.queue("a").send(1)
    bare = getattr(broker, "inner", broker)._connections
    await broker.close()  # so that the next call makes a connection
    pool, closed = bare.pool, [ValueError("file descriptor cannot be a negative integer (-1)")]
    get = pool.get_connection

    def get_connection(*arguments: Any) -> Any:
        if closed:
            raise closed.pop()
        return get(*arguments)

    monkeypatch.setattr(pool, "get_connection", get_connection)
    assert len(await broker.queue("a").claim()) == 1
    assert not closed


def check_its_reader(call: Call[Any] | Command[Any]) -> None:
    """It takes a reply, or says that it is another; it never fails in another way."""
    for reply in (*OTHERS, *MORE):
        with suppress(WrongReply):
            call.read(reply, repeated=False)


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_what_a_script_cannot_have_replied(raw: Any) -> None:
    world = World(raw)

    @each_row("verb", VERBS.values())
    def check(verb: Verb) -> None:
        check_its_reader(verb.call(world))

    check()


@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_what_a_command_cannot_have_replied(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Command[Any]] = []
    read = Command.read

    def reading(self: Command[Any], reply: Any, repeated: bool) -> Any:
        commands.append(self)
        return read(self, reply, repeated)

    with monkeypatch.context() as patch:
        patch.setattr(Command, "read", reading)
        queue = broker.queue("a", redelivery=RedeliveryPolicy(max_redeliveries=0), outcomes=10)
        await queue.send_many(range(3))
        for delivery in await queue.claim(2):
            await delivery.nack("no")
        job = await queue.dlq.redrive(all=True, rate=1, detach=True)
        await job.cancel()
        looks = (broker.overview, broker.workers, broker.audit, broker.schedules, broker.policies.read)
        for look in (*looks, queue.stats, queue.settings, queue.outcomes, queue.dlq.groups, queue.delete):
            with suppress(InvalidInput):  # the queue is not empty
                await look()
    kinds = {command.parts[0] for command in commands}
    assert kinds >= {b"TIME", b"HGETALL", b"HSETNX", b"SADD", b"SMEMBERS", b"XRANGE", b"ZRANGE"}, kinds
    for command in commands:
        check_its_reader(command)


@each_row("other", [other for other in OTHERS if other != []])
@pytest.mark.parametrize("backend", ["real"], indirect=True)
async def test_a_command_is_repeated_like_a_script(broker: Any, other: Any) -> None:
    await broker.policies.set("a", redelivery=RedeliveryPolicy())
    left = [other]
    await change_talk(broker, lambda commands: commands, lambda replies: [left.pop()] if left else replies)
    assert [*(await broker.policies.read()).entries] == ["a"]
