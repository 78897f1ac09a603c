"""A network that loses calls and replies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from rq_dlq._redis.errors import Unheard
from rq_dlq._redis.loading import is_unknown
from tests.servers.counts import verb_of, verbs_of


@dataclass
class Lost:
    """What became of the runs of one script.

    Attributes:
        runs: how often it was sent to the server.
        left: how many calls or replies are still to be lost.
    """

    runs: int
    left: int

    def take(self) -> None:
        """One more run, and an error where it is lost."""
        self.runs += 1
        if self.left:
            self.left -= 1
            message = "the network failed"
            raise redis.ConnectionError(message)


async def lose_replies(broker: Any, verb: str, times: int = 1) -> Lost:
    """From now on the server runs this script, but the first replies are lost on their way."""
    return lose(await connections_of(broker), verb, times)


def meanwhile(lost: Lost, act: Callable[[], object]) -> None:
    """Others do this whenever the script has run, before its reply is lost or heard."""
    take = lost.take

    def acted() -> None:
        act()
        take()

    lost.take = acted  # type: ignore[method-assign]


def acked(queue: Any) -> list[str]:
    """A consumer takes what there is, and acks it; the ids."""
    deliveries = queue.claim(1_000)
    queue.ack(deliveries)
    return [delivery.id for delivery in deliveries]


async def lose_calls(broker: Any, verb: str, times: int = 1) -> Lost:
    """From now on the first calls of this script do not reach the server."""
    return lose(await connections_of(broker), verb, times, arrives=False)


async def connections_of(broker: Any) -> Any:
    """What runs the steps of a broker; it is connected."""
    await broker.queues()  # connects
    bare = getattr(broker, "inner", broker)
    return bare._connections


def put_talk(connections: Any, talk: Callable[..., Any]) -> None:
    """From now on these connections, and those for their last calls, make round trips like this."""

    def in_haste() -> Any:
        hasty = type(connections).in_haste(connections)
        hasty._talk = connections._talk
        return hasty

    connections._talk, connections.in_haste = talk, in_haste


def refuse_beside(connections: Any, word: bytes, note: bytes) -> None:
    """From now on the server refuses a command of this name that is sent in one batch with another one."""
    talk: Callable[..., Any] = connections._talk

    def after(commands: list[tuple[Any, ...]], replies: list[Any]) -> list[Any]:
        if not {word, note} <= {command[0] for command in commands}:
            return replies
        refused = redis.exceptions.ResponseError("not now")
        return [
            refused if command[0] == word else reply for command, reply in zip(commands, replies, strict=True)
        ]

    async def awaiting(commands: list[tuple[Any, ...]]) -> list[Any]:
        return after(commands, await talk(commands))

    def blocking(commands: list[tuple[Any, ...]]) -> list[Any]:
        return after(commands, talk(commands))

    put_talk(connections, awaiting if inspect.iscoroutinefunction(talk) else blocking)


def told_of(connections: Any) -> list[tuple[Any, ...]]:
    """From now on all commands that are sent."""
    seen: list[tuple[Any, ...]] = []
    talk: Callable[..., Any] = connections._talk

    async def awaiting(commands: list[tuple[Any, ...]]) -> list[Any]:
        seen.extend(commands)
        return await talk(commands)  # type: ignore[no-any-return]

    def blocking(commands: list[tuple[Any, ...]]) -> list[Any]:
        seen.extend(commands)
        return talk(commands)  # type: ignore[no-any-return]

    put_talk(connections, awaiting if inspect.iscoroutinefunction(talk) else blocking)
    return seen


def lose(connections: Any, verb: str, times: int, *, arrives: bool = True) -> Lost:
    """Lose the first calls of a verb (or waits: "wait") or, where they arrive, their replies."""
    lost = Lost(0, times)
    talk: Callable[..., Any] = connections._talk

    def before(commands: list[tuple[Any, ...]]) -> None:
        if not arrives and runs(commands):
            lost.take()

    def after(commands: list[tuple[Any, ...]], replies: list[Any]) -> list[Any]:
        if arrives and runs(commands) and not any(map(is_unknown, replies)):
            lost.take()
        return replies

    def runs(commands: list[tuple[Any, ...]]) -> bool:
        return any(
            command[0] == b"BLPOP" if verb == "wait" else verb in {verb_of(command), *verbs_of(command)}
            for command in commands
        )

    async def awaiting(commands: list[tuple[Any, ...]]) -> list[Any]:
        before(commands)
        return after(commands, await talk(commands))

    def blocking(commands: list[tuple[Any, ...]]) -> list[Any]:
        before(commands)
        return after(commands, talk(commands))

    put_talk(connections, awaiting if inspect.iscoroutinefunction(talk) else blocking)
    return lost


@contextmanager
def unheard(connections: Any) -> Iterator[None]:
    """Nothing reaches the server, and the client knows it."""
    talk = connections._talk

    def nobody(commands: list[Any]) -> Any:
        del commands
        message = "there is no connection"
        raise Unheard(message)

    put_talk(connections, nobody)
    try:
        yield
    finally:
        put_talk(connections, talk)


async def change_talk(
    broker: Any, sent: Callable[[list[Any]], list[Any]], heard: Callable[[list[Any]], list[Any]]
) -> None:
    """From now on what the broker says goes through the one function, what it hears through the other."""
    connections = await connections_of(broker)
    talk: Callable[..., Any] = connections._talk

    async def awaiting(commands: list[Any]) -> list[Any]:
        return heard(await talk(sent(commands)))

    def blocking(commands: list[Any]) -> list[Any]:
        return heard(talk(sent(commands)))

    put_talk(connections, awaiting if inspect.iscoroutinefunction(talk) else blocking)
