"""Ends a worker process that has handled enough messages, or has grown too large, so that a new one follows.

The worker stops as after a first signal. Each process draws its own limits, up to a tenth lower or higher:
otherwise processes that began together would all end together. Done and failed messages are counted where
they are settled, so a process passes its limit only by the calls that are settled together with the last one.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rq_dlq.errors import ConfigurationError, PolicyError
from rq_dlq.policy import _checks
from rq_dlq.values.settlement import FAILED
from rq_dlq.worker.tally import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATM = Path("/proc/self/statm")
SPREAD = 0.1  # a limit is at most this part lower or higher
LOOK = 1.0  # seconds between two looks at the memory
FAR = 2  # times the limit of memory: a process that waits for its turn to end does not wait beyond that


class Limits(NamedTuple):
    """The limits of a process: messages, and bytes of memory; None: no limit."""

    messages: int | None
    memory: int | None


def limits_of(max_messages: object, max_memory: object) -> Limits:
    """Check these arguments of a worker.

    Raises:
        ConfigurationError: one is not valid.
    """
    try:
        messages = _checks.count(1, "no limit")(max_messages, "max_messages")
        return Limits(messages, _checks.size(max_memory, "max_memory"))
    except PolicyError as error:
        raise ConfigurationError(str(error)) from None


def resident() -> int:
    """The memory of this process that is in RAM (RSS), bytes; without /proc: the most that it has had."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource  # noqa: PLC0415 - Linux needs it not

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


class Recycling:
    """The limits of a worker process, and what happens when it reaches one.

    Args:
        limits: each is moved by a tenth at most.
        counts: of the worker's deliveries, by outcome.
        then: what happens, once.

    Attributes:
        then: the same; a process of `rq-dlq worker --processes` asks its parent instead, which lets one end
            at a time.
        far: what happens, once, if it has not ended when it takes twice the memory that it may: it is not
            left to grow until the machine has none.
    """

    def __init__(self, limits: Limits, counts: Mapping[str, int], then: Callable[[], object]) -> None:
        self.then = then
        self.far: Callable[[], object] = lambda: None
        self._counts = counts
        self._messages = inf if limits.messages is None else max(1, round(_near(limits.messages)))
        self._memory = inf if limits.memory is None else _near(limits.memory)
        self._looked = 0.0  # monotonic seconds
        self._reached, self._beyond = threading.Lock(), threading.Lock()  # held from then on

    def begin(self) -> None:
        """Look at the memory before the first message: every process would end at such a limit."""
        if self._memory < inf and (used := resident()) >= self._memory:
            logger.error(
                "the process takes %s before its first message, more than max_memory, about %s, allows: it "
                "works without that limit",
                _megabytes(used), _megabytes(self._memory),
            )  # fmt: skip
            self._memory = inf

    def note(self) -> None:
        """Compare the counts with the limit of messages, after they have grown."""
        if self._messages < inf:
            handled = self._counts["acked"] + sum(self._counts[outcome] for outcome in FAILED)
            if handled >= self._messages:
                self._reach(f"has handled {handled:,} messages; max_messages is {self._messages:,} here")

    def look(self) -> None:
        """Compare the memory with its limit, about once a second."""
        if self._memory < inf and (now := time.monotonic()) - self._looked > LOOK:
            self._looked = now
            if (used := resident()) >= self._memory:
                self._reach(f"takes {_megabytes(used)}; max_memory is {_megabytes(self._memory)} here")
            if used >= FAR * self._memory and self._beyond.acquire(blocking=False):
                self.far()

    def _reach(self, why: str) -> None:
        if self._reached.acquire(blocking=False):
            logger.info("the process %s: a new one can take its place", why)
            self.then()


def _near(limit: float) -> float:
    """A limit of this process, near the one that was given."""
    return limit * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - spreads restarts, guards nothing


def _megabytes(size: float) -> str:
    return f"{size / (1 << 20):,.0f} MB"
