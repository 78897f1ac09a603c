"""The messages that the tasks of a job stage, until they are committed or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from rq_dlq.core.jobs import calls
from rq_dlq.core.steps.step import CHUNK, CHUNK_BYTES, WINDOW, Pipeline, Steps, chunks

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.call import Argument, Command

STAGE_TTL = 86_400_000  # milliseconds that staged messages wait for a commit


@dataclass
class Stage:
    """The messages that one attempt of a task writes to one queue.

    Attributes:
        job: at most 200 bytes, without control characters.
        attempt: a name that no other attempt of the job has, without dots.
        ttl: milliseconds that it waits for a commit after it was last written to.
        counts: how many messages there are, by the names of its lists.
        longest: bytes of the longest payload.
    """

    keys: QueueKeys
    job: str
    attempt: str
    ttl: int = STAGE_TTL
    counts: dict[str, int] = field(default_factory=dict[str, int])
    longest: int = 0

    def add(self, items: Sequence[Argument], *, delay: int = 0, ttl: int = 0) -> Steps[None]:
        """Stage items (id, payload, …) of one delay and time to live (milliseconds; 0: none)."""
        name = calls.attempt_of(self.attempt, delay=delay, ttl=ttl)
        length = 2 * self.counts.get(name, 0)
        commands: list[Command[Any]] = []
        if not length:
            commands.append(calls.note_list(self.keys, self.job, name))
        sizes = [len(payload) for payload in cast("Sequence[bytes]", items[1::2])]
        self.longest = max(self.longest, *sizes)
        for chunk in parts(items, sizes):
            length += len(chunk)
            commands += (
                calls.stage(self.keys, self.job, name, chunk),
                calls.cut(self.keys, self.job, name, length),
            )
        for window in chunks(commands, 2 * WINDOW):
            kept = [calls.keep(self.keys, self.job, each, self.ttl) for each in (name, calls.LISTS)]
            yield Pipeline([*window, *kept])
        self.counts[name] = length // 2


def parts(items: Sequence[Argument], sizes: Sequence[int]) -> Iterator[Sequence[Argument]]:
    """Parts of items (id, payload, …), about half a megabyte at most; `sizes`: of the payloads."""
    if max(sizes) * CHUNK <= CHUNK_BYTES:
        yield from chunks(items, 2 * CHUNK)
        return
    start = size = 0
    for end, more in zip(range(2, len(items) + 1, 2), sizes, strict=True):
        size += more
        if end == len(items) or end - start == 2 * CHUNK or size >= CHUNK_BYTES:
            yield items[start:end]
            start, size = end, 0
