"""Leased messages, and the lease that the messages of one claim share.

The deliveries of one claim share the token, the end of the lease, the queue and the codec, in one `Lease`, so
an extension through one of them shows in all, and a delivery has five attributes of its own. The bodies of a
claim are decoded in one loop. Copies and two calls for each delivery would take the client a fifth more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rq_dlq.values import record as records
from rq_dlq.values import state as states
from rq_dlq.values.failure import moment
from rq_dlq.values.message import MessageRow, Received

if TYPE_CHECKING:
    from rq_dlq.values.codec import Codec
    from rq_dlq.values.settlement import Fate, Settlement

T = TypeVar("T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Lease(Generic[T]):
    """The lease of one claim, which all its messages share.

    Attributes:
        token: the claim's id, which proves that a consumer holds its messages.
        began: when they were claimed; milliseconds of the server's clock.
        ends: when the lease ends, unless it is extended; milliseconds of the server's clock.
        queue: the name of the queue that they were claimed from.
        codec: decodes their bodies.
        family: the queue that they were sent to, unless the token names another.
        read_at: when this process received the reply to the claim, monotonic seconds; inf: unknown.
    """

    token: str
    began: int
    ends: int
    queue: str
    codec: Codec[T]
    family: str
    read_at: float = inf

    def server_time(self, now: float) -> float:
        """An estimate of the server's time now (monotonic seconds): milliseconds, never too late."""
        return self.began + 1000 * (now - self.read_at)

    def left(self, now: float) -> float:
        """The most milliseconds that the lease can have left now (monotonic seconds); inf: unknown."""
        return self.ends - self.server_time(now)


class Leased(Received[T]):
    """A leased message; one from a dead-letter or expiry queue also has the fields of a `DeadLetter`.

    Attributes:
        outcome: how it was settled through this object. "deferred": a loop acks it with its next claim.
        lost: the worker found that the lease was lost while the handler was running.
        cancelled: the message was cancelled (`Queue.cancel`): the handler can no longer settle it, and may
            return. An async call is cancelled.
    """

    outcome: Fate | None = None
    lost = cancelled = False
    _unfit = False  # the handler does not accept it, so no call has begun
    _settled: tuple[Settlement, BaseException | str | None] | None = None  # the settlement, and its error
    _returned: Any = None  # the handler's return value, or the one passed to its ack
    _chain: Any = None  # its ack that sends, while its outcome is unknown
    _handling: Any = None  # the context of the broker's observers; None: no observers, or not begun

    def __init__(self, row: MessageRow, lease: Lease[T]) -> None:
        self.id = row.id  # without super(): a claim makes up to a thousand
        self._row = row
        self._lease = lease
        self._held = (row.id, lease.token)

    @property
    def token(self) -> str:
        """The claim's id, which proves that the consumer holds the message."""
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
        """The queue it was sent to; for a dead letter, where it failed and where a redrive returns it."""
        return self.token.partition("@")[2] or self._lease.family  # a view's token names the queue

    @property
    def settled(self) -> bool:
        """Whether it was acked, nacked, poisoned or released through this object."""
        return self.outcome is not None

    def _time_to_live(self, now: float) -> float:
        """The remaining time to live, seconds, by this process's clock since the claim.

        Args:
            now: monotonic seconds.

        Returns:
            Seconds, never too few; inf: the message does not expire, or its ttl no longer counts, for example
            for a dead letter.
        """
        record, state = self._row.record, self._row.state
        if not record[records.FLAGS] & records.EXPIRES and b"expires=" not in state:
            return inf  # the usual case
        if not state.startswith(b"live"):
            return inf
        end = states.deadline_of(state, record)
        return (end - self._lease.server_time(now)) / 1000 if end else inf  # 0: a redrive removed it

    @property
    def _wants_result(self) -> bool:
        """Whether its result was requested."""
        state = self._row.state
        return b" result=" in state and b" result=0 " not in state  # a child of a gather without one

    @property
    def lease_until(self) -> datetime:
        """When the lease ends, by the server's clock (UTC)."""
        return moment(self._lease.ends)


def read_bodies(messages: Sequence[Leased[Any]], codec: Codec[Any]) -> bool:
    """Decode the bodies of claimed messages; False: one of them cannot be decoded.

    It does the same as `message.body` for each, without the calls that are rarely needed.
    """
    read, most = codec.read, records.BARE + codec.max_bytes
    bare, flags, plain = records.BARE, records.FLAGS, records.PLAIN
    try:
        for message in messages:
            record = message._row.record  # noqa: SLF001 - for speed, also below
            if read and bare < len(record) <= most and record[flags] in plain:
                message._body = read(record[bare:])  # noqa: SLF001
            else:
                message.body  # noqa: B018 - decodes it
    except Exception:  # noqa: BLE001 - reading that body raises its error
        return False
    return True
