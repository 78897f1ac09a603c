"""Reading results, and the channels on which they are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from rq_dlq.core.steps.call import Call, Command, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys

Found: TypeAlias = bytes | int
"""The end of a message (lua/lib/kept); 1: it has none, and is in the queue; 0: it has none."""


def result(keys: QueueKeys, ids: Sequence[str]) -> Call[list[Found]]:
    """The end of each of these messages."""

    def read_each(reply: Any) -> list[Found]:
        return whole(reply, len(ids))

    return Call("result", keys, {}, ids, read_each)


def tell(channel: str) -> Command[int]:
    """Notify the listener on this channel, which then polls."""
    return Command((b"PUBLISH", channel, b""), int)


def subscribe(*channels: str) -> tuple[Any, ...]:
    """The Redis command that subscribes a connection to these channels."""
    return (b"SUBSCRIBE", *channels)


def unsubscribe(*channels: str) -> tuple[Any, ...]:
    """The command that ends that; no channels: all."""
    return (b"UNSUBSCRIBE", *channels)


def hearing(channel: str) -> tuple[Command[Any], Command[Any]]:
    """Both of these as commands, for granting their rights."""
    return Command(subscribe(channel)), Command(unsubscribe(channel))
