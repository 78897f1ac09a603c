"""An operation as a value: a script or a command, its keys and arguments, how to read the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeVar, cast

from rq_dlq.values.cached import cached_property
from rq_dlq.values.message import Row

if TYPE_CHECKING:
    from rq_dlq._keys import Keys, MoreKeys
    from rq_dlq.values.outcome import RawOutcome

R = TypeVar("R")
Part = Literal["live", "dead", "expired"]
Place = Literal["ready", "scheduled", "leased", "dead", "expired"]
Held = tuple[str, str]  # the id of a message and the token that holds it
Argument = bytes | str | int | float
UNLIKE = (TypeError, AttributeError, LookupError, ValueError)
"""The error of readers for a reply of another kind."""


class Script(Protocol):
    """The data of an assembled script that a command needs; `_scripts` has them."""

    @cached_property
    def sha(self) -> str:
        """The name by which Redis finds it."""
        ...

    @cached_property
    def word(self) -> bytes:
        """The command that runs it."""
        ...

    @cached_property
    def key(self) -> str:
        """A name that no other script has."""
        ...

    @property
    def tail(self) -> tuple[str, ...]:
        """What follows its items."""
        ...

    @property
    def keys(self) -> Sequence[str]:
        """Names of its keys, in order."""
        ...

    @property
    def args(self) -> tuple[str, ...]:
        """Names of its arguments, in order."""
        ...

    @property
    def families(self) -> Sequence[str]:
        """Names of the keys that are passed for each of several queues."""
        ...

    def arguments(self, given: Mapping[str, object], /) -> Iterable[object]:
        """The values in the script's order; a TypeError if the names are not those that it binds."""
        ...


class Scripts(Protocol):
    """The assembled scripts, by the names of their Lua files."""

    def __getitem__(self, name: str, /) -> Script:
        """A script."""
        ...


class Run(bytes):
    """EVALSHA or FCALL: the first word of the commands that run a script on the same keys.

    Attributes:
        words: how many words these commands have in common.
        packed: these words in the form for sending, kept by the sender; empty: not yet packed.
    """

    words: int
    packed = b""

    def __new__(cls, word: bytes, words: int) -> Self:
        """The first words, this many."""
        run = super().__new__(cls, word)
        run.words = words
        return run


class Call(NamedTuple, Generic[R]):  # a tuple is made faster than a frozen dataclass
    """One run of a script.

    Args:
        script: the name of its Lua file.
        args: by the names that the script binds.
        items: the values of all items, flat.
        reader: turns the reply into the result.
        families: the queues of a script on several queues, or the lists of a job.
        repetition_reader: the same for a repetition of a call with an unknown outcome; None: `reader`.
    """

    script: str
    keys: Keys
    args: Mapping[str, Argument]
    items: Sequence[Argument]
    reader: Callable[[Any], R]
    families: Sequence[Keys] = ()
    repetition_reader: Callable[[Any], R] | None = None

    def read(self, reply: Any, repeated: bool) -> R:
        """The result; `repeated`: the call repeats one with an unknown outcome.

        Raises:
            WrongReply: the reply is of another kind than this call has.
        """
        reader = self.repetition_reader if repeated else None
        try:
            return (reader or self.reader)(reply)
        except UNLIKE as error:
            raise WrongReply from error

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command; the server must know the script."""
        script = scripts[self.script]
        head = None if self.families else self.keys.heads.get(script.key)
        if head is None:
            names = [self.keys[name] for name in script.keys]
            names += [family[name] for family in self.families for name in script.families]
            head = (Run(script.word, 3 + len(names)), script.sha, len(names), *names)
            if not self.families:
                self.keys.heads[script.key] = head
        in_order = tuple(self.args) == script.args  # nearly always
        args = self.args.values() if in_order else script.arguments(self.args)
        return (*head, *args, *self.items, *script.tail)


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
    """The same call, as a repetition of one with an unknown outcome."""
    return call._replace(reader=call.repetition_reader or call.reader)


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One plain Redis command, for anything but a transition of a message."""

    parts: tuple[Argument, ...]
    reader: Callable[[Any], R] = lambda reply: reply
    script: ClassVar[str] = ""  # it runs none

    def read(self, reply: Any, repeated: bool) -> R:
        """The result; like `Call.read`."""
        del repeated
        try:
            return self.reader(reply)
        except UNLIKE as error:
            raise WrongReply from error

    def command(self, scripts: Scripts) -> tuple[Any, ...]:
        """The Redis command."""
        del scripts
        return self.parts


class WrongReply(Exception):  # noqa: N818 - never leaves `_redis`
    """The reply is of another kind than the call has.

    Something else in the process closed the descriptor of a connection, and a new connection got its number:
    two share a socket, and read each other's replies. Or another program wrote to the queue's keys.
    """

    def __init__(self) -> None:
        super().__init__("the reply is for another call, or another program wrote to the keys")


def whole(reply: Any, length: int, *, and_each: int = 0) -> list[Any]:
    """The reply, a list of this length, and any number of times `and_each`.

    Raises:
        WrongReply: it is another.
    """
    if isinstance(reply, list):
        cells: list[Any] = reply  # pyright: ignore[reportUnknownVariableType]
        more = len(cells) - length
        if more == 0 or (and_each and more > 0 and more % and_each == 0):
            return cells
    raise WrongReply


_row_of: Callable[[tuple[Any, ...]], Row] = partial(tuple.__new__, Row)  # without Python code for each


def read_rows(cells: Iterable[Any]) -> list[Row]:
    """Messages of a claim: id, record, state and history of each, flat."""
    cells = iter(cells)
    ids = map(bytes.decode, cells)
    return [*map(_row_of, zip(ids, cells, cells, cells, repeat(0)))]  # `whole` has counted the cells


def read_ids(reply: Any) -> list[str]:
    """A list of ids."""
    return [item.decode() for item in reply]


def read_hash(reply: Any) -> dict[bytes, bytes]:
    """The fields and values of a hash."""
    if isinstance(reply, dict):  # a pool that was passed in may speak RESP3
        return cast("dict[bytes, bytes]", reply)
    cells = whole(reply, 0, and_each=2)
    return dict(zip(cells[::2], cells[1::2], strict=True))


def read_entries(reply: Any) -> list[RawOutcome]:
    """Entries of a stream: the id of each, its fields and values by turns."""
    return [(event_id.decode(), cells) for event_id, cells in reply]
