"""An operation as a value: a verb or a command, its keys and arguments, how to read the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast

import msgspec
from msgspec.structs import replace

from rq_dlq.values.message import MessageRow

if TYPE_CHECKING:
    from rq_dlq._keys import Keys, MoreKeys
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.values.outcome import RawOutcome

R = TypeVar("R")
Part = Literal["live", "dead", "expired"]
Place = Literal["ready", "scheduled", "leased", "dead", "expired"]
Held = tuple[str, str]  # the id of a message and the token that holds it
Argument = bytes | str | int | float
UNLIKE = (TypeError, AttributeError, LookupError, ValueError)
"""The error of readers for a reply of another kind."""


class Run(bytes):
    """EVALSHA or FCALL: the first word of the commands that run a verb on the same keys.

    Attributes:
        words: how many words these commands have in common.
        verb: its name.
        packed: these words in the form for sending, kept by the sender; empty: not yet packed.
    """

    words: int
    verb: str
    packed = b""

    def __new__(cls, word: bytes, words: int, verb: str) -> Self:
        """The first words, this many."""
        run = super().__new__(cls, word)
        run.words, run.verb = words, verb
        return run

    def __reduce__(self) -> tuple[type[Self], tuple[bytes, int, str]]:
        """What it is made of: Spark copies brokers to its executors."""
        return type(self), (bytes(self), self.words, self.verb)


class Call(msgspec.Struct, Generic[R], frozen=True):  # made in a third of the time of a tuple with names
    """One run of a verb.

    Args:
        verb: its name.
        args: by the names that it binds.
        items: the values of all items, flat.
        reader: turns the reply into the result.
        families: the queues of a verb on several queues, or the lists of a job.
        repetition_reader: the same for a repetition of a call with an unknown outcome; None: `reader`.
    """

    verb: str
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

    def command(self, verbs: Verbs) -> tuple[Any, ...]:
        """The Redis command; the server must know the verb."""
        verb = verbs[self.verb]
        head = None if self.families else self.keys.heads.get(verb.key)
        if head is None:
            names = [self.keys[name] for name in verb.keys]
            names += [family[name] for family in self.families for name in verb.families]
            head = (Run(verb.word, 3 + len(names), self.verb), verb.sha, len(names), *names)
            if not self.families:
                self.keys.heads[verb.key] = head
        in_order = tuple(self.args) == verb.args  # nearly always
        args = self.args.values() if in_order else verb.arguments(self.args)
        return (*head, *args, *self.items, *verb.tail)


@dataclass(slots=True)
class Sender:
    """Numbers calls to a queue, so that each takes effect once (I12).

    Attributes:
        keys: of the queue, and of the register with the number of the last call that was done.
        number: of the current call.
        plan: the plan that it carries out (lua/choice.lua); empty: none.
        stays: its register does not expire.
    """

    keys: MoreKeys
    number: int = 0
    plan: str = ""
    stays: bool = False


def repetition(call: Call[R]) -> Call[R]:
    """The same call, as a repetition of one with an unknown outcome."""
    return replace(call, reader=call.repetition_reader or call.reader)


@dataclass(frozen=True, slots=True)
class Command(Generic[R]):
    """One plain Redis command, for anything but a transition of a message.

    Attributes:
        optional: if the server refuses it, the reply is None, and the other calls of its round trip count.
    """

    parts: tuple[Argument, ...]
    reader: Callable[[Any], R] = lambda reply: reply
    optional: bool = False
    verb: ClassVar[str] = ""  # it runs none

    def read(self, reply: Any, repeated: bool) -> R:
        """The result; like `Call.read`."""
        del repeated
        try:
            return self.reader(reply)
        except UNLIKE as error:
            raise WrongReply from error

    def command(self, verbs: Verbs) -> tuple[Any, ...]:
        """The Redis command."""
        del verbs
        return self.parts


class WrongReply(Exception):  # noqa: N818 - never leaves `_redis`
    """The reply is of another kind than the call has.

    Something else in the process closed the descriptor of a connection, and a new connection got its number:
    two share a socket, and read each other's replies. Or another program wrote to the queue's keys.
    """

    def __init__(self, why: str = "") -> None:
        super().__init__(why or "the reply is for another call, or another program wrote to the keys")


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


_row_of: Callable[[tuple[Any, ...]], MessageRow] = partial(
    tuple.__new__, MessageRow
)  # without Python code for each


def read_rows(cells: Iterable[Any]) -> list[MessageRow]:
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
