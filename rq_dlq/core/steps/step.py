"""The steps that a generator yields: a call, a pipeline of calls, a wait."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias, TypeVar

from rq_dlq.core.steps.call import Call, Command
from rq_dlq.errors import BrokerUnavailable

R = TypeVar("R")

CHUNK = 250  # messages in one call
CHUNK_BYTES = 1 << 19  # and about this many bytes: 2 ms of Redis
CHANGED = 20  # messages in one call that judges, moves or removes them: 4 ms where histories are full
WINDOW = 4  # scripts in one round trip
MOST = 1_000  # messages in one claim: Redis' Lua cannot unpack 8,000 values
MAX_BLOCK = 1_000  # milliseconds that a waiting client sleeps at most before it looks again


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Calls of one round trip; the generator is sent their results in order.

    Attributes:
        apart: in a cluster, a call that cannot be carried out now has a `NodeUnavailable` as its result. The
            others go on, and none is repeated.
    """

    calls: Sequence[Call[Any] | Command[Any]]
    apart: bool = False


class NodeUnavailable(BrokerUnavailable):
    """A node of a cluster cannot be reached, or cannot carry out a call now. Other nodes may."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep until something is pushed to the key; the generator is sent the milliseconds that it took.

    Attributes:
        then: the call that the server carries out right after the wait, without a round trip in between, on a
            key of the same slot; its result is sent, too, as the second of two.
    """

    key: str
    milliseconds: int
    then: Call[Any] | None = None


class Deadline:
    """The deadline of a wait.

    Args:
        clock: seconds; it never goes back.
        milliseconds: from now; None: no end.
    """

    def __init__(self, clock: Callable[[], float], milliseconds: int | None) -> None:
        self.clock = clock
        self._end = inf if milliseconds is None else clock() + milliseconds / 1000

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.clock() >= self._end

    def wait(self, key: str, milliseconds: int) -> Wait:
        """Wait this long, at most until the deadline, and at most a second."""
        left = (self._end - self.clock()) * 1000
        return Wait(key, int(max(1, min(milliseconds, MAX_BLOCK, left))))


Step: TypeAlias = Call[Any] | Command[Any] | Pipeline | Wait
Steps: TypeAlias = Generator[Step, Any, R]


def calls_of(step: Step) -> Sequence[Call[Any] | Command[Any]]:
    """The calls of a step, in order; none for a mere wait."""
    if isinstance(step, Pipeline):
        return step.calls
    if isinstance(step, Wait):
        return () if step.then is None else (Command((b"BLPOP", step.key, 0)), step.then)
    return (step,)


def chunks(items: Sequence[R], size: int = CHUNK) -> Iterator[Sequence[R]]:
    """The items, `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


def bounded(items: Iterable[R], length: Callable[[R], int]) -> Iterator[list[R]]:
    """The items, in chunks for one call: at most `CHANGED` of them, of about half a megabyte."""
    chunk: list[R] = []
    size = 0
    for item in items:
        more = length(item)
        if chunk and (len(chunk) == CHANGED or size + more > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += more
    if chunk:
        yield chunk


def seed() -> float:
    """A number in [0, 1), from which a script spreads the delays of a batch."""
    return random.random()  # noqa: S311 - spreads retries, guards nothing
