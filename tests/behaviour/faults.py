"""A network that loses replies."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis


@dataclass
class Lost:
    """What became of the runs of one script.

    Attributes:
        runs: how often the server ran it.
        left: how many replies are still to be lost.
    """

    runs: int
    left: int


async def lose_replies(broker: Any, verb: str, times: int = 1) -> Lost:
    """From now on the server runs this script, but the first replies are lost on their way."""
    await broker.queues()  # connects
    bare = getattr(broker, "inner", broker)
    connections = getattr(bare, "_connections", None) or bare.connections
    lost, sha = Lost(0, times), connections.scripts[verb].sha
    talk: Callable[..., Any] = connections._talk

    def look(commands: list[tuple[Any, ...]], replies: list[Any]) -> list[Any]:
        ran = any(command[1] == sha for command in commands if len(command) > 1)
        if ran and not any(isinstance(reply, redis.exceptions.NoScriptError) for reply in replies):
            lost.runs += 1
            if lost.left:
                lost.left -= 1
                message = "the reply was lost"
                raise redis.ConnectionError(message)
        return replies

    async def awaiting(commands: list[tuple[Any, ...]]) -> list[Any]:
        return look(commands, await talk(commands))

    def blocking(commands: list[tuple[Any, ...]]) -> list[Any]:
        return look(commands, talk(commands))

    connections._talk = awaiting if inspect.iscoroutinefunction(talk) else blocking
    return lost
