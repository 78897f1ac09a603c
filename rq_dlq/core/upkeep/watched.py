"""The indexes of a maintained queue that maintenance watches, and the work that is due there."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.queue import encode_policy
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.core.upkeep.upkeep import CHECKS, INDEXES, PAIRS, ROLES, MaintenanceRole
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.policy.fields import REPORT_INTERVAL
from rq_dlq.values.codec import NO_JSON

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.call import Command
    from rq_dlq.errors import BrokerRefused, BrokerUnavailable

logger = logging.getLogger("rq_dlq.maintenance")
CHECK_AGAIN = 60_000  # milliseconds until a queue is checked again for work that no index shows
QUIET = 600  # rounds until a queue that cannot be maintained is logged again
USUAL_POLICY = encode_policy(RedeliveryPolicy().as_wire())


class MaintainedQueue:
    """A queue that is maintained.

    Attributes:
        policy: judges a lapse if Redis has no policy for the queue.
        looks: the reads that show due work.
    """

    def __init__(
        self, keys: QueueKeys, roles: Iterable[MaintenanceRole] = ROLES, policy: bytes = USUAL_POLICY
    ) -> None:
        self.keys = keys
        self.policy = policy
        self._indexes = [index for role in roles for index in INDEXES[role]]
        self._pairs = [pair for role in roles for pair in PAIRS.get(role, ())]
        self._checks = [name for role in roles for name in CHECKS.get(role, ())]
        heads = [queue_calls.first_score(keys, index) for index, _, _ in self._indexes]
        sizes = [page_calls.size(keys, index) for *pair, _ in self._pairs for index in pair]
        self.looks: Sequence[Command[Any]] = (
            queue_calls.clock(),  # of its own node, in a cluster
            *heads,
            *sizes,
            upkeep_calls.strategy(keys),
            upkeep_calls.discarded(keys),
        )
        self._now = 0
        self._check_at: int | None = None  # by the server's clock
        self._discarded: int | None = None
        self._quiet = 0

    def due(self, replies: Sequence[Any]) -> tuple[list[str], float | None]:
        """The work that is due now, by name, and in how many milliseconds the next is; None: unknown."""
        now, *found, text, discarded = replies
        heads, sizes = found[: len(self._indexes)], found[len(self._indexes) :]
        strategy = _strategy(text)
        self._report(strategy, discarded)
        names: dict[str, None] = {}
        later: list[float] = []
        for (_, name, setting), head in zip(self._indexes, heads, strict=True):
            kept = strategy.get(setting) if setting else 0
            if head is None or isinstance(kept, bool) or not isinstance(kept, int | float):
                continue
            if head + kept <= now:
                names[name] = None
            else:
                later.append(head + kept - now)
        for (*_, name), size, other in zip(self._pairs, sizes[::2], sizes[1::2], strict=True):
            if size != other:
                names[name] = None
        if self._is_unchecked(now):
            names.update(dict.fromkeys(self._checks))
        return list(names), min(later, default=None)

    def _is_unchecked(self, now: int) -> bool:
        """Whether to check for work that no index shows; the first time after a part of the usual span.

        So the queues that a process begins to maintain are not all checked in the same round.
        """
        self._now = now
        if self._check_at is None or self._check_at > now + CHECK_AGAIN:  # the clock stepped back
            half = CHECK_AGAIN // 2
            self._check_at = now + half + zlib.crc32(self.keys.family.encode()) % half
        return self._check_at <= now

    def note(self, name: str, count: int) -> None:
        """Note how many messages a step concerned: a check that finds none rests."""
        if name in self._checks and not count:
            self._check_at = self._now + CHECK_AGAIN

    def rest(self) -> None:
        """Let all checks rest: they were just made."""
        self._check_at = self._now + CHECK_AGAIN

    def _report(self, strategy: dict[str, Any], discarded: int) -> None:
        """Log each time the queue has discarded another `report_interval` of messages (I14)."""
        stored = strategy.get("report_interval")
        interval = stored if isinstance(stored, int) and stored > 0 else REPORT_INTERVAL
        before, self._discarded = self._discarded, discarded
        if before is not None and discarded // interval > before // interval:
            logger.warning("%s: %d messages discarded so far", self.keys.family, discarded)

    def refuse(self, error: BrokerRefused | BrokerUnavailable) -> None:
        """Log periodically that its server cannot or will not maintain it; the others continue."""
        if self._quiet == 0:
            logger.warning("%s cannot be maintained: %s", self.keys.family, error)
            self._quiet = QUIET

    def next_round(self) -> None:
        """Another round begins."""
        self._quiet = max(0, self._quiet - 1)


def _strategy(text: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text or b"{}")
    except NO_JSON:
        value = None
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
