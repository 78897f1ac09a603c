"""The moment of a plan: which messages were there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.values import record
from rq_dlq.values.state import NEW, read_state
from rq_dlq.values.wanted import HEAD, STATE, STORY

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueName
    from rq_dlq.core.steps.call import Place
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.message import MessageRow
    from rq_dlq.values.wanted import Wanted

DIED: Final = {"dead", "expired"}
_LATEST: Final = 1 << 42  # no score is a later time (lua/state.lua)
_ARRIVED: Final = re.compile(rb"(?:^|\n)(?:redriven|moved|copied)\t([0-9]+)")
_RETURNED: Final = re.compile(rb" returned=([0-9]+)")


@dataclass(frozen=True, slots=True)
class Cutoff:
    """The moment of a plan in one queue (lua/choice.lua).

    Attributes:
        at: by the server's clock, milliseconds; not before the last death.
        birth: the last birth that the queue had given.
        returned: how many undos and imports had returned dead letters to it.
    """

    at: int
    birth: int
    returned: int

    def __str__(self) -> str:
        return f"{self.at} {self.birth} {self.returned}"

    @staticmethod
    def needs(place: Place) -> Wanted:
        """The parts of a message that `has` reads."""
        return STATE if place in DIED else HEAD | STORY

    def has(self, row: MessageRow, place: Place) -> bool:
        """Whether a message was there, as the scripts decide it again when the plan is carried out."""
        if place in DIED:
            returned = _RETURNED.search(row.state)
            died = (read_state(row.state) or NEW).due
            return died <= self.at and (returned is None or int(returned[1]) <= self.returned)
        if arrived := _ARRIVED.findall(row.history):
            return int(arrived[-1]) <= self.at
        return int.from_bytes(row.record[record.BIRTH]) <= self.birth


def cutoff(queue: QueueName) -> Steps[Cutoff]:
    """The present moment of a queue."""
    keys = queue.keys
    (now, _), dead, expired, (birth, returned) = yield Pipeline(
        [
            queue_calls.stats(keys, queue.name),
            page_calls.position(keys, "dead", -1),
            page_calls.position(keys, "expired", -1),
            queue_calls.counted(keys, "birth", "returned"),
        ]
    )
    last = [int(min(float(end.score), _LATEST)) for end in (dead, expired) if end is not None]
    at = max([now, *last])  # the clock may have stepped back
    return Cutoff(at, birth or ((now + 1) << record.NUMBER_BITS) - 1, returned)
