"""What an operation is made of: a script or a command, its keys and arguments, how to read the reply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rq_dlq._keys import Keys
    from rq_dlq._scripts import Script, Scripts

R = TypeVar("R")
Part = Literal["live", "dead", "expired"]
Place = Literal["ready", "scheduled", "leased", "dead", "expired"]
Argument = bytes | str | int | float


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One run of a script.

    Args:
        script: the name of its Lua file.
        args: by the names that the script binds.
        items: what follows for each item, flat.
        read: the reply as a value; its second argument says that the call is a repetition of one whose
            outcome is not known.
        families: the queues, for a script on several; or the lists of a job.
    """

    script: str
    keys: Keys
    args: Mapping[str, Argument]
    items: Sequence[Argument]
    read: Callable[[Any, bool], R]
    families: Sequence[Keys] = ()

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command; it expects the server to know the script."""
        script = scripts[self.script]
        head = self.keys.heads.get(script.sha)
        if head is None:
            names = [self.keys[name] for name in script.keys]
            names += [family[name] for family in self.families for name in script.families]
            head = self.keys.heads[script.sha] = (b"EVALSHA", script.sha, len(names), *names)
        return (*head, *script.arguments(self.args), *self.items)

    def loads(self, scripts: Scripts) -> Script | None:
        """The script that the server must know before."""
        return scripts[self.script]


def repetition(call: Call[R]) -> Call[R]:
    """The same call again, where it is known that an earlier one had no known outcome."""

    def read(reply: Any, repeated: bool) -> R:
        del repeated
        return call.read(reply, True)  # noqa: FBT003 - as all readers are called

    return replace(call, read=read)


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One plain Redis command, for what is no transition of a message."""

    parts: tuple[Argument, ...]
    read: Callable[[Any, bool], R]

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command."""
        del scripts
        return self.parts

    def loads(self, scripts: Scripts) -> Script | None:
        """No script."""
        del scripts
        return None


def read_number(reply: Any, repeated: bool = False) -> int:
    del repeated
    return int(reply)


def read_ids(reply: Any, repeated: bool = False) -> list[str]:
    del repeated
    return [item.decode() for item in reply]


def read_hash(reply: Any, repeated: bool) -> dict[bytes, bytes]:
    del repeated
    if isinstance(reply, dict):  # a pool that was passed in may speak RESP3
        return cast("dict[bytes, bytes]", reply)
    return dict(zip(reply[::2], reply[1::2], strict=True))
