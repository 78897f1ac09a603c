"""An operation as a value: a script or a command, its keys and arguments, how to read the reply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from rq_dlq.values.message import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rq_dlq._keys import Keys, MoreKeys
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
        items: the values of all items, flat.
        read: turns the reply into the result; its second argument: the call repeats one whose outcome is
            not known.
        families: the queues of a script on several queues, or the lists of a job.
    """

    script: str
    keys: Keys
    args: Mapping[str, Argument]
    items: Sequence[Argument]
    read: Callable[[Any, bool], R]
    families: Sequence[Keys] = ()

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command; the server must know the script."""
        script = scripts[self.script]
        head = None if self.families else self.keys.heads.get(script.sha)
        if head is None:
            names = [self.keys[name] for name in script.keys]
            names += [family[name] for family in self.families for name in script.families]
            head = (b"EVALSHA", script.sha, len(names), *names)
            if not self.families:
                self.keys.heads[script.sha] = head
        return (*head, *script.arguments(self.args), *self.items)

    def loads(self, scripts: Scripts) -> Script | None:
        """The script that the server must know."""
        return scripts[self.script]


@dataclass(slots=True)
class Sender:
    """Numbers calls to a queue, so that each takes effect once (I12).

    Attributes:
        keys: of the queue, and of the register with the number of the last call that was done.
        number: of the current call.
    """

    keys: MoreKeys
    number: int = 0


def repetition(call: Call[R]) -> Call[R]:
    """The same call, as a repetition of one whose outcome is not known."""

    def read(reply: Any, repeated: bool) -> R:
        del repeated
        return call.read(reply, True)  # noqa: FBT003 - as all readers are called

    return replace(call, read=read)


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One plain Redis command, for anything but a transition of a message."""

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


def read_rows(cells: Iterable[Any]) -> list[Row]:
    """Messages of a claim: id, record, state and history of each, flat."""
    cells = iter(cells)
    return [
        Row(message_id.decode(), record, state, history)
        for message_id, record, state, history in zip(cells, cells, cells, cells, strict=True)
    ]


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
