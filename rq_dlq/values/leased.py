"""Messages that a consumer holds, and the lease that those of one claim share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq.values import record as records
from rq_dlq.values import state as states
from rq_dlq.values.failure import moment
from rq_dlq.values.message import Received, Row

if TYPE_CHECKING:
    from rq_dlq.values.codec import Codec
    from rq_dlq.values.settlement import Fate, Settlement

T = TypeVar("T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Lease(Generic[T]):
    """The lease of one claim, which all its messages share.

    Attributes:
        token: the claim's id, which proves that a consumer holds its messages.
        began: when they were claimed; milliseconds of the server's clock, like the others.
        ends: when it ends, if nobody extends it.
        queue: the name of the queue that they were claimed from.
        codec: reads their bodies.
        family: the queue that they were sent to, unless the token names it.
        read_at: when this process had the reply to the claim, monotonic seconds; inf: it is not known.
    """

    token: str
    began: int
    ends: int
    queue: str
    codec: Codec[T]
    family: str
    read_at: float = inf

    def server_time(self, now: float) -> float:
        """About the server's time at this moment (monotonic seconds): milliseconds, at most too early."""
        return self.began + 1000 * (now - self.read_at)

    def left(self, now: float) -> float:
        """How many milliseconds are left now (monotonic seconds), at most; inf: it is not known."""
        return self.ends - self.server_time(now)


class Leased(Received[T]):
    """A message that a consumer holds; from a dead-letter or expiry queue it has what a `DeadLetter` has.

    Attributes:
        outcome: how it was settled through this object. Deferred: a loop will ack it with its next claim.
        lost: a worker found that the lease was lost while the handler runs.
        cancelled: a worker was told that the message was cancelled (`Queue.cancel`): nothing counts that its
            handler does, so it may return. An async call is cancelled then.
    """

    outcome: Fate | None = None
    lost = cancelled = False
    _unfit = False  # its handler does not take it, so no call has begun
    _settled: tuple[Settlement, BaseException | str | None] | None = None  # what was done, by which error
    _returned: Any = None  # by its handler, or passed to its ack
    _chain: Any = None  # its ack that sends, as long as nobody knows whether it was done
    _handling: Any = None  # what the broker's observers see of it; None: there are none, or it has not begun

    def __init__(self, row: Row, lease: Lease[T]) -> None:
        self.id = row.id  # not by super(): a claim makes up to a thousand
        self._row = row
        self._lease = lease
        self._held = (row.id, lease.token)

    @property
    def token(self) -> str:
        """The claim's id, which proves that the consumer holds it."""
        return self._lease.token

    @property
    def queue(self) -> str:
        """The name of the queue it was claimed from."""
        return self._lease.queue

    @property
    def _codec(self) -> Codec[T]:
        return self._lease.codec

    @property
    def original_queue(self) -> str:
        """The queue that it was sent to; if it is dead: where it failed, and where a redrive returns it."""
        return self.token.partition("@")[2] or self._lease.family  # a view's token names the queue

    @property
    def settled(self) -> bool:
        """Whether it was acked, nacked, poisoned or released through this object."""
        return self.outcome is not None

    def _time_to_live(self, now: float) -> float:
        """How many seconds its time to live still lasts, by this process's clock since it was claimed.

        Args:
            now: monotonic seconds.

        Returns:
            At most so many too many; inf: it has no end, or has ended for good, as that of a dead message.
        """
        record, state = self._row.record, self._row.state
        if not record[records.FLAGS] & records.EXPIRES and b"expires=" not in state:
            return inf  # nearly always
        if not state.startswith(b"live"):
            return inf
        end = states.deadline_of(state, record)
        return (end - self._lease.server_time(now)) / 1000 if end else inf  # 0: a redrive took it away

    @property
    def _wants_result(self) -> bool:
        """Whether somebody asked for its result."""
        return b" result=" in self._row.state

    @property
    def lease_until(self) -> datetime:
        """When the lease ends, by the server's clock (UTC)."""
        return moment(self._lease.ends)


def read_bodies(messages: Sequence[Leased[Any]], codec: Codec[Any]) -> bool:
    """Decode the bodies of messages that were claimed; False: one of them cannot be decoded.

    It is `message.body` for each, without the calls that nearly all of them do not need.
    """
    read, most = codec.read, records.BARE + codec.max_bytes
    try:
        for message in messages:
            record = message._row.record  # noqa: SLF001 - for speed, like the next
            if read and records.BARE < len(record) <= most and record[records.FLAGS] in records.PLAIN:
                message._body = read(record[records.BARE :])  # noqa: SLF001
            else:
                message.body  # noqa: B018 - decodes it
    except Exception:  # noqa: BLE001 - whoever reads that body gets its error
        return False
    return True
