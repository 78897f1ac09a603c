"""Whether a process is alive and ready, from its own records, without asking Redis."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from logging import DEBUG
from typing import TYPE_CHECKING, Literal

from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.doctor.check import Check
from rq_dlq.errors import BrokerUnavailable, RqDlqError

if TYPE_CHECKING:
    import logging

STUCK_AFTER = 120.0  # seconds; longer than the timeouts of a call


class Vitals:
    """The notes of a process about itself, for probes in other threads.

    Args:
        stopping: whether it is finishing its running calls.

    Attributes:
        redis: why Redis could not be used at the last call; empty: it answered.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self.redis = "not reached yet"
        self._away = False  # it was logged that Redis is unreachable
        self._lost: set[str] = set()  # logged failures of lost nodes
        self._noting = threading.Lock()
        self._stopping = stopping
        self._refusals: Callable[[], Mapping[str, str]] = dict[str, str]
        self._stage: Literal["starting", "working", "stopping"] = "starting"
        self._turns: dict[str, tuple[float, float]] = {}

    def turn(self, name: str, within: float | None = None) -> None:
        """Note that a periodic activity, such as the event loop, is running.

        Args:
            within: the longest time until its next turn, seconds; None: `STUCK_AFTER`.
        """
        self._turns[name] = time.monotonic(), STUCK_AFTER if within is None else within

    def rest(self, name: str) -> None:
        """Note that this activity has ended."""
        self._turns.pop(name, None)

    def note_redis(self, trouble: str, logger: logging.Logger) -> None:
        """Note whether Redis answered. Log once when an outage begins, and once when it ends.

        Args:
            trouble: why Redis cannot be used; empty: it answered.
            logger: the logger of the process.
        """
        self.redis = trouble
        self._say(trouble, logger)

    def _say(self, trouble: str, logger: logging.Logger) -> None:
        with self._noting:
            was_away, self._away = self._away, bool(trouble)
        if trouble and not was_away:
            logger.warning("waiting for Redis: %s", trouble)
        elif was_away and not trouble:
            logger.info("Redis is back")

    def note_failure(
        self, what: str, error: RqDlqError, logger: logging.Logger, level: int, where: str
    ) -> None:
        """Log a failure and its reason. In an outage, only the first failure is logged.

        Other nodes of a cluster may still work, so for a lost node the first failure of each `where` is
        logged.

        Args:
            where: the part that fails while a node is lost, such as a queue.
        """
        if isinstance(error, BrokerUnavailable):
            if error.node or isinstance(error, NodeUnavailable):
                with self._noting:
                    first = where not in self._lost
                    self._lost.add(where)
            else:
                first = False
                self._say(str(error), logger)
            level = level if first else DEBUG
        logger.log(level, "%s: %s", what, error)

    def note_success(self, where: str, logger: logging.Logger) -> None:
        """Note a success. Log it if the same part failed before with a lost node."""
        if not self._lost:  # nearly always
            return
        with self._noting:
            back = where in self._lost
            self._lost.discard(where)
        if back:
            logger.info("%s: Redis is back", where)

    def begin(self, refusals: Callable[[], Mapping[str, str]] = dict[str, str]) -> None:
        """Note that the process has started working.

        Args:
            refusals: why claims are refused now, by queue.
        """
        self._refusals = refusals
        self._stage = "working"

    def end(self) -> None:
        """Note that the process has stopped working: no activity is expected any more."""
        self._stage = "stopping"
        self._turns.clear()

    @property
    def stage(self) -> Literal["starting", "working", "stopping"]:
        """The stage of the process."""
        return "stopping" if self._stopping() else self._stage

    def live(self) -> list[Check]:
        """Whether its activities are running. A long call, or an unreachable Redis, does not affect that."""
        return [Check("process", "ok", self.stage), *self._turning()]

    def ready(self) -> list[Check]:
        """Whether it is also ready: it has started and is not stopping, Redis answers, claims succeed."""
        working = self.stage == "working"
        return [
            Check("process", "ok" if working else "fail", self.stage),
            *self._turning(),
            Check("redis", "fail" if self.redis else "ok", self.redis or "answers"),
            *(Check(name, "fail", f"cannot claim: {why}") for name, why in self._refusals().items()),
        ]

    def _turning(self) -> Iterator[Check]:
        now = time.monotonic()
        for name, (turned, within) in self._turns.copy().items():
            state: Literal["ok", "fail"] = "fail" if now - turned > within else "ok"
            yield Check(name, state, f"turned {max(0.0, now - turned):.1f} s ago")
