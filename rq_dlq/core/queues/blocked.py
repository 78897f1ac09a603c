"""What a broker warns of once: sends that were ignored, and failures that did not count."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

from rq_dlq.values.readable import some
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.values.key import Of

logger = logging.getLogger("rq_dlq")
MOST = 1_000  # ids that are remembered
NAMED = 5  # ids that a warning names
LOOKS = 20  # failures of one class that are looked at, whether their messages have a dependency


class Blocked:
    """The last ids, by their queues, that a broker has warned of.

    Attributes:
        looked_at: queues, with key or dependency, for which it is known whether they ignore those.
        uncounted: by queue, the classes of errors that failed messages with a dependency, and that the
            `errors` of its breaker do not include; "" is a failure without an exception.
    """

    def __init__(self) -> None:
        self.looked_at: set[tuple[str, Of]] = set()
        self.uncounted: dict[str, set[str]] = {}
        self._looks: Counter[tuple[str, str]] = Counter()
        self._warned: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def warn(self, queue: str, ids: Iterable[str]) -> None:
        """Warn that nothing was sent under these ids, once for each."""
        if new := self._new(queue, ids, "dead"):
            logger.warning(
                "%s: nothing was sent, since a dead letter has the id: %s. "
                "`rq-dlq dlq redrive %s --id ID` redrives it, `rq-dlq dlq purge %s --id ID` frees the id",
                *(queue, new, queue, queue),
            )

    def warn_of_keys(self, queue: str, ids: Iterable[str]) -> None:
        """Warn that these ids were sent with another key than their messages have; once for each."""
        if new := self._new(queue, ids, "key"):
            logger.warning(
                "%s: nothing was sent, since messages with these ids have another key: %s. Use an id with "
                "one key only",
                *(queue, new),
            )

    def may_be_uncounted(self, queue: str, kind: str) -> bool:
        """Whether a failure of this class has to be looked at: it is new, or nothing was found yet."""
        if kind in self.uncounted.get(queue, ()) or len(self._looks) > MOST:
            return False
        self._looks[queue, kind] += 1
        return self._looks[queue, kind] <= LOOKS

    def note_uncounted(self, queue: str, kind: str) -> None:
        """Note that failures of this class do not count against a dependency."""
        self.uncounted.setdefault(queue, set()).add(kind)

    def _new(self, queue: str, ids: Iterable[str], why: str) -> str:
        """The ids without an earlier warning of this kind, in words."""
        new = [str(one) for one in dict.fromkeys(ids) if (queue, one, why) not in self._warned]
        self._warned.update(dict.fromkeys((queue, one, why) for one in new))
        while len(self._warned) > MOST:
            self._warned.popitem(last=False)
        return visible_line(some(new, NAMED)) if new else ""
