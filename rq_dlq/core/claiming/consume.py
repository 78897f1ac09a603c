"""A loop over deliveries, whose acks ride in the round trip of its next claim (`core/steps/riding.py`).

- *A deferred ack is not reported as done.* `delivery.ack()` in a loop returns "deferred", and `outcome` says
  so until the ack is made. `queue.ack([delivery])` acks at once. If Redis cannot be reached, deferred acks
  become unsettled again, and `delivery.ack()` repeats them.
- *A lost lease is raised by the next step* and ends the loop, since a generator that has raised is finished.
  The error comes from the `for`, not from the `with` block, which has ended. The other acks of that round
  trip are done, and the messages that it claimed are released.
- *It keeps what it has not handed out.* The messages of a claim share one lease. Before a loop hands out the
  next one it extends that lease, in the round trip of its ack, once a tenth of it is gone by the client's
  clock: each message begins with nine tenths of a lease at least, and quick work extends nothing. A caller
  whose one message takes longer than the lease has lost the rest, which is then dropped at once, with one
  call. No thread extends behind the caller's back: one that hangs must lose its messages.
- *`with delivery:` looks at that clock, too*, and raises `LeaseLost` before the work rather than after it.
  The client hears of a lease after it has begun, so by its own steady clock it never ends too early; the
  server's time is not asked (I11).
- *Leaving* acks and releases in one round trip. Only the delivery of the current step and those not handed
  out are released: an earlier one may have been passed to a thread, which can ack it after the loop, too.
  After `break` no caller can get an error of the generator, so it is logged (its weak reference is gone by
  then); closing the generator raises it.
- *With a count above 1* an ack waits for others at most 5 ms and one message, so a slow message does not hold
  up the acks before it until the common lease ends.
- *A worker* makes acks in a round trip of their own only while its messages take long or its claim waits; all
  others ride. If a claim fails they stay with the worker. A forked child forgets the loop of its parent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

from rq_dlq.core.claiming.claim import claim
from rq_dlq.core.claiming.cut_off import give_back
from rq_dlq.core.results.results import results_of
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.core.settling.settle import ack, extend, release
from rq_dlq.core.steps.riding import riding
from rq_dlq.errors import BrokerRefused, LeaseLost
from rq_dlq.values.deques import take_all
from rq_dlq.values.failure import moment
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Settlement

ACK_WITHIN = 0.005  # seconds that acks wait for others
FRESH = 0.9  # of a lease that is left, without which it is extended before the next message is handed out

D = TypeVar("D", bound="Leased[Any]")
Loop = TypeVar("Loop")


class Consuming(Generic[D]):
    """The deliveries of one loop over a queue, and the acks that it has deferred.

    Any thread may ack a delivery: deferred ones are in a deque, and the thread that takes one settles it.

    Args:
        make: makes the deliveries of a claim, from its rows, its lease, and this loop.
        count: messages of one claim.
        wait: milliseconds that each claim waits.
        lease: milliseconds; None: the queue's.
        clock: seconds; it never goes back.

    Attributes:
        over: the loop was ended.
    """

    def __init__(
        self,
        queue: QueueState[Any],
        make: Callable[..., list[D]],
        *,
        count: int,
        wait: int,
        lease: int | None,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._lease = queue.lease if lease is None else lease
        self._claim = partial(
            claim,
            queue,
            partial(make, consuming=self),
            count=count,
            wait=wait,
            lease=lease,
            stopped=self._is_cut_short,
        )
        self._unseen: deque[D] = deque()  # claimed, and not handed out yet
        self._current: D | None = None
        self._acked: deque[D] = deque()  # the ack is deferred
        self._lost: list[Settlement] = []  # deferred acks that were too late
        self._asked = 0.0  # when the last round trip ended
        self.over = False
        self._process = this_process()
        self._made_by: ref[Any] | None = None

    def is_made_by(self, loop: Loop) -> Loop:
        """Note the generator of this loop."""
        self._made_by = ref(loop)
        return loop

    @property
    def is_dropped(self) -> bool:
        """Whether Python is closing the generator because it is no longer referenced."""
        return self._made_by is not None and self._made_by() is None

    def defer(self, delivery: D) -> bool:
        """Defer the ack of this step's delivery to the next step; False: it is another one, so ack it now.

        The ack of an earlier delivery could lie here for as long as the next claim waits.
        """
        if delivery is not self._current:
            return False
        delivery.outcome = "deferred"
        self._acked.append(delivery)
        still = delivery is self._current  # if another thread ended the step, it may not have seen this ack
        return still or not self._withdraw(delivery)

    def _withdraw(self, delivery: D) -> bool:
        try:
            self._acked.remove(delivery)
        except ValueError:  # the loop has taken it
            return False
        delivery.outcome = None
        return True

    def step(self) -> Steps[D | None]:
        """The next delivery, after the deferred acks; None: there was none in time, or the loop was ended.

        Raises:
            LeaseLost: a deferred ack was too late. The others are done.
        """
        self._leave_to_parent()
        self._current = None
        if self.over:
            return None
        while self._unseen and (self._may_expire(self._unseen[0]) or self._is_old(self._unseen[0])):
            if (yield from riding(self._ack(), self._keep_next())):
                break
        if not self._unseen:
            self._unseen.extend((yield from riding(self._ack(), self._claim())))
            self._asked = self._clock()
        elif self._acked and self._clock() - self._asked > ACK_WITHIN:
            yield from self._ack()
            self._asked = self._clock()
        self._tell_lost()
        self._current = self._next()
        return self._current

    def _may_expire(self, delivery: D) -> bool:
        """Whether it has a time to live, which may have ended since it was claimed with others (I7)."""
        return delivery.expires_at is not None and delivery.part == "live"

    def _is_old(self, delivery: D) -> bool:
        """Whether the caller has worked for a while since it was claimed: it gets a whole lease."""
        return delivery._lease.left(self._clock()) < FRESH * self._lease

    def _keep_next(self) -> Steps[bool]:
        """Ask the server whether the next one may be handed out, which keeps it; otherwise take it out."""
        one = self._unseen[0]
        (held,) = yield from extend(self._queue, [one], self._lease)
        now = moment(one._lease.ends - self._lease)
        if held and not (self._may_expire(one) and one.expires_at is not None and one.expires_at <= now):
            return True
        self._unseen.popleft()
        if held:
            yield from release(self._queue, [one._held])  # the next claim moves it to where it belongs
        elif self._unseen:  # they share its lease
            rest = [*self._unseen]
            still = yield from extend(self._queue, rest, self._lease)
            self._unseen.clear()
            self._unseen.extend(one for one, kept in zip(rest, still, strict=True) if kept)
        return False

    def _next(self) -> D | None:
        """The next to hand out; none if the loop was ended during the claim, which then releases them."""
        return self._unseen.popleft() if self._unseen and not self.over else None

    def leave(self, *, cut_off: bool = False) -> Steps[None]:
        """End the loop: make the deferred acks, release the delivery of this step and those not handed out.

        To end it again does nothing, unless a step that was under way has claimed something since.

        Args:
            cut_off: also give back messages that an unfinished claim may have taken.

        Raises:
            LeaseLost: a deferred ack was too late. The others are done.
        """
        self._leave_to_parent()
        self.over = True
        current, rest = self._current, self._take_rest()
        try:
            yield from riding(self._ack(), self._release(rest, current)) if rest else self._ack()
        except BaseException as error:
            if not isinstance(error, Exception):  # cut off, as by a cancellation: it can be ended again
                self._unseen.extendleft(d for d in reversed(rest) if not d.settled)
                raise
            for delivery in self._take_acked():  # a later ack() makes it
                delivery.outcome = None
            if isinstance(error, BrokerRefused):  # perhaps only the ack
                yield from self._release([delivery for delivery in rest if not delivery.settled], current)
            raise
        if cut_off:
            yield from give_back(self._queue)
        self._tell_lost()

    def _ack(self) -> Steps[None]:
        acked = self._take_acked()
        try:
            settlements = yield from ack(
                self._queue, [delivery._held for delivery in acked], results_of(acked)
            )
        except BaseException:
            self._acked.extend(acked)
            raise
        _note(acked, settlements)
        self._lost += [settlement for settlement in settlements if not settlement]

    def _release(self, deliveries: Sequence[D], current: D | None) -> Steps[None]:
        """Release the delivery of this step, and those that the caller never had: they were not tried."""
        for begun in (True, False):
            some = [delivery for delivery in deliveries if (delivery is current) is begun]
            held = [delivery._held for delivery in some]
            _note(some, (yield from release(self._queue, held, begun=begun)))

    def _take_acked(self) -> list[D]:
        """The deliveries to ack, without those that were settled otherwise, such as by `queue.ack`."""
        return [delivery for delivery in take_all(self._acked) if delivery.outcome == "deferred"]

    def _take_rest(self) -> list[D]:
        """The delivery of this step and those not handed out, without those that were settled."""
        current = () if self._current is None else (self._current,)
        rest = [*current, *self._unseen]
        self._current = None
        self._unseen.clear()
        return [delivery for delivery in rest if not delivery.settled]

    def _is_cut_short(self) -> bool:
        """Whether a claim no longer waits: the loop was ended, or there is something to report."""
        return self.over or bool(self._lost)

    def _tell_lost(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, []
            try:
                held_or_raise(lost[0])
            except LeaseLost as error:
                if len(lost) > 1:
                    error.add_note(f"the same is true of {', '.join(other.id for other in lost[1:])}")
                raise

    def _leave_to_parent(self) -> None:
        """In a forked child, forget the messages that the parent holds."""
        if self._process != this_process():
            self._process, self._current = this_process(), None
            self._unseen.clear()
            self._acked.clear()


def _note(deliveries: Sequence[Leased[Any]], settlements: Sequence[Settlement]) -> None:
    for delivery, settlement in zip(deliveries, settlements, strict=True):
        delivery.outcome = settlement.outcome
