"""Claiming, and waiting for something to claim.

A client that finds nothing sleeps on `wake` (BLPOP) for at most a second, then looks again: an idle client
claims once per second. `send`, and any call that makes a message ready, pushes one token; the claim that it
wakes pushes the next one if more is ready. For future work one sleeping client holds the `alarm` and wakes in
time; when it gets other work or stops, it wakes another client, which takes the alarm. A client whose
connection is lost during its sleep waits for a random part of that sleep, so that a thousand clients do not
return at once.

- *The claim after a wait is sent with the wait.* Redis carries it out as soon as the BLPOP ends, so a message
  is with its client after one reply in place of two: at the median of an idle queue a fifth sooner. It is
  of a client that may be gone. If its connection was closed, Redis drops the claim with it. If its process is
  stopped, or its network cut, it may be given what comes within the rest of its wait, a second at most; as
  after any other claim, this returns when the lease ends. A reply that is lost is asked for again, under the
  same token. The claim does not know when its wait will end, so it is told the patience of a client that
  waits to the end; one that is woken sooner, by nothing, claims once more. A worker's takes no suspect: it
  would hold the permit in its sleep, which other consumers of the process may need.
- *A wait ends in time*, though no client polls. Redis ends an expired BLPOP when its event loop turns: on the
  tick of its `hz`, every 100 ms by default, or when anything wakes it (`handleBlockedClientsTimeout` in
  `beforeSleep`, from Redis 6.0 on, and in Valkey). So 1 ms after the end of its wait the client sends a PING
  over the connection that is blocked. Redis wakes, ends the BLPOP, and answers the PING; both replies are
  read. If the BLPOP reached the server late, the first PING comes too early; more follow, at growing
  intervals, up to the length of a tick. A user without the right to PING is refused, which wakes the server
  as well. At last the timeout of the connection ends the wait.
- *Lapsed leases come first.* A claim sweeps them before it hands anything out, ten messages in its call. If
  more have lapsed, it hands out nothing, sweeps 15 more, and asks to be repeated (`wait` 0); after 40 such
  rounds (1,000 messages, the largest claim) it takes ready messages, so after a mass crash a consumer still
  gets work within a few milliseconds. A claim that finds nothing continues until everything that lapsed is
  swept, or until its consumer stops: an empty list means that nothing was ready. It gives up after a thousand
  calls (more than 10,000 messages), since a lease that no sweep can remove would keep it forever.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from rq_dlq.core.claiming.by_turns import claim_by_turns
from rq_dlq.core.claiming.calls import Claimed, Suspects
from rq_dlq.core.claiming.calls import claim as claim_call
from rq_dlq.core.claiming.from_view import claim_view
from rq_dlq.core.claiming.passing_on import pass_on
from rq_dlq.core.gathers.carrying import carry_ended
from rq_dlq.core.opening import open_to_drain
from rq_dlq.core.queues.queue import forget
from rq_dlq.core.settling.settle import poison, release
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.riding import after
from rq_dlq.core.steps.step import MAX_BLOCK, Steps, Wait, seed
from rq_dlq.errors import UnfitMessage, UnprocessableMessage
from rq_dlq.values.leased import Lease, read_bodies
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.message import MessageRow
    from rq_dlq.values.settlement import Settlement

logger = logging.getLogger("rq_dlq")
ROUNDS = 40  # claims that only sweep, 25 messages each, before one hands out ready messages
MOST_ROUNDS = 1_000  # claims that are repeated immediately, so that none continues forever

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
D = TypeVar("D", bound="Leased[Any]")
Make: TypeAlias = "Callable[[Sequence[MessageRow], Lease[Any]], list[D]]"
"""Makes the deliveries of a claim, from its rows and its lease."""
Undecodable: TypeAlias = "Callable[[D, Settlement, UnprocessableMessage], None]"
"""Receives a delivery whose body does not decode, how it was settled, and the error."""


class Once(Protocol[C_co]):
    """Makes one claim; returns what it claimed and, as `Claimed.wait`, when to claim again.

    Args:
        patience: milliseconds that the client can wait.
        alarmed: this client has the alarm.
        thorough: lapsed leases are swept first.
        asleep: the server makes it when the client's wait ends.
    """

    def __call__(
        self, patience: int, /, *, alarmed: bool, thorough: bool, asleep: bool
    ) -> Steps[tuple[C_co, int | Word]]:
        """Claim once."""
        ...


class Permit(Protocol):
    """A worker's permit to run a suspect: a message whose lease expired before, so it may kill workers."""

    def take(self) -> bool:
        """Whether the next claim may take a suspect."""
        ...

    def note(self, suspect: Leased[Any] | None, *, passed: bool = False) -> None:
        """Note the result of that claim.

        Args:
            suspect: the one that it took.
            passed: it took none, since all ready messages are suspects.
        """


def claim(
    queue: QueueState[Any],
    make: Make[D],
    *,
    count: int = 1,
    wait: int = 0,
    lease: int | None = None,
    permit: Permit | None = None,
    undecodable: Undecodable[D] | None = None,
    stopped: Callable[[], bool] = bool,
) -> Steps[list[D]]:
    """Claim messages, and wait for the first.

    A message whose body does not decode dies immediately (`unprocessable`) and is not returned. If its body
    decodes, but does not fit the queue's type, it is passed on to another version of the program. A dead
    letter is kept, and rests, so that it does not block those behind it. If dead letters of other queues are
    under the name, they are claimed in turns with messages that were sent to it.

    Args:
        count: the most messages.
        wait: milliseconds to wait for the first.
        lease: milliseconds; None: the queue's.
        permit: a worker's. With it a message's first lapse is not charged, and a suspect is claimed alone.
            The claim does not wait if only suspects are ready and the permit allows none.
        undecodable: called with each message whose body does not decode; None: it is logged.
        stopped: ends the wait.
    """
    held_for = queue.lease if lease is None else lease

    claim_own = partial(_claim_once, queue, make, held_for, permit=permit, undecodable=undecodable)

    def claim_one(member: QueueState[Any], number: int) -> Steps[list[D]]:
        return patiently(member, partial(_claim_once, member, make, held_for, number), 0, stopped)

    def once(
        patience: int, *, alarmed: bool, thorough: bool, asleep: bool
    ) -> Steps[tuple[list[D], int | Word]]:
        if queue.opened and not queue.shows_letters:  # nearly always: one generator less
            return claim_own(count, patience, alarmed=alarmed, thorough=thorough, asleep=asleep)
        own = partial(claim_own, thorough=thorough, asleep=asleep)
        return _open_first(
            queue,
            partial(own, count, patience, alarmed=alarmed),
            partial(claim_by_turns, queue, own, claim_one, count, patience, alarmed=alarmed, waits=wait > 0),
        )

    claimed = yield from patiently(queue, once, wait, stopped)
    if not queue.view or claimed:
        return claimed
    found = yield from claim_view(queue, claim_one, count, wait=wait, stopped=stopped)
    if found is None:  # the name is now also a queue's
        found = yield from patiently(queue, once, wait, stopped)
    return found


def _open_first(
    queue: QueueState[Any],
    claim_own: Callable[[], Steps[tuple[list[D], int | Word]]],
    by_turns: Callable[[], Steps[tuple[list[D], int | Word]]],
) -> Steps[tuple[list[D], int | Word]]:
    """Open the queue, which shows whether its name also has dead letters of others; then claim once."""
    yield from open_to_drain(queue)
    if queue.view:
        return [], Word.DELETED
    return (yield from by_turns() if queue.also_letters else claim_own())


def patiently(
    queue: QueueName,
    once: Once[C],
    wait: int,
    stopped: Callable[[], bool] = bool,
) -> Steps[C]:
    """Claim until messages are ready, for up to `wait` milliseconds, or until it is stopped.

    If leases have lapsed, they are swept before anything is claimed, as many as the rounds allow. So their
    messages come before newer ones, and nothing is returned only if nothing was ready, or after a thousand
    rounds, which sweep more than 10,000 messages. Each wait is as long as possible, since the last claim of
    a wait must pass the alarm on.
    """
    left: int = wait
    pause: int = 0
    patience: int
    alarmed, rounds = False, ROUNDS
    while True:
        stops, thorough = stopped(), rounds > 0
        pause = 0 if stops else pause
        patience = 0 if stops else max(0, min(left - pause, MAX_BLOCK))
        if pause > 0:
            key = queue.keys["wake"] if queue.part == "live" else queue.keys.silent
            claiming = once(patience, alarmed=alarmed, thorough=thorough, asleep=True)
            took, (claimed, wait_for) = yield from after(Wait(key, pause), queue.keys, claiming)
            left -= int(took)
        else:
            claimed, wait_for = yield from once(patience, alarmed=alarmed, thorough=thorough, asleep=False)
        if (
            claimed
            or wait_for in {Word.SUSPECTS, Word.DELETED}
            or (patience == 0 and (stops or (wait_for != 0 and left <= 0)))
        ):
            return claimed
        if wait_for == 0:
            rounds -= 1
            if rounds == ROUNDS - MOST_ROUNDS:
                return claimed
            pause = 0
            continue
        alarmed = isinstance(wait_for, int)
        pause = min(wait_for, patience) if isinstance(wait_for, int) else patience


def _claim_once(
    queue: QueueState[Any],
    make: Make[D],
    lease: int,
    count: int,
    patience: int,
    *,
    alarmed: bool,
    thorough: bool,
    asleep: bool,
    permit: Permit | None = None,
    undecodable: Undecodable[D] | None = None,
) -> Steps[tuple[list[D], int | Word]]:
    """Claim once: the messages that decode and, as `Claimed.wait`, when to claim again."""
    # Long: whatever fails on the way, the token and the permit are given back in one place
    token, resumed = _token(queue)
    suspects: Suspects = "all"
    permit = permit if queue.part == "live" else None  # failures of dead letters are not charged
    if permit is not None:  # other consumers may need it while this one sleeps
        suspects = "alone" if not asleep and permit.take() else "none"
    try:
        claimed: Claimed = yield claim_call(
            queue.keys,
            part=queue.part,
            token=token,
            count=count,
            lease=lease,
            patience=patience,
            alarmed=alarmed,
            suspects=suspects,
            thorough=thorough,
            consumer=queue.consumer,
            seed=seed(),
            default_policy=queue.policy,
            opening=queue.opening if queue.opened else "",
        )
        shared = Lease(token, claimed.now, claimed.now + lease, queue.name, queue.codec, queue.keys.family)
        good = deliveries = make(claimed.rows, shared)
        if not read_bodies(deliveries, queue.codec):
            good = yield from _decodable(queue, deliveries, undecodable)
        if resumed:
            good = yield from _fitting(queue, good, count, suspects=permit is None)
        if claimed.gathered:
            yield from carry_ended(queue, claimed.now)
        if permit is not None:
            suspect = good[0] if len(good) == 1 and good[0].lapsed else None
            permit.note(suspect, passed=claimed.wait is Word.SUSPECTS)
    except BaseException:
        if permit is not None:
            permit.note(None)
        queue.indeterminate_claims.note(token)  # the next claim resumes it
        raise
    if claimed.wait is Word.DELETED:
        forget(queue)
    return good, 0 if deliveries or claimed.wait is Word.DELETED else claimed.wait


def _token(queue: QueueState[Any]) -> tuple[str, bool]:
    """The token of the next claim, and whether it resumes a claim with an unknown outcome."""
    if queue.indeterminate_claims and (token := queue.indeterminate_claims.take()):
        return token, True
    token = os.urandom(10).hex()
    return f"{token}@{queue.keys.family}" if queue.viewed else token, False


def _decodable(
    queue: QueueState[Any], deliveries: list[D], undecodable: Undecodable[D] | None
) -> Steps[list[D]]:
    good: list[D] = []
    for delivery in deliveries:
        try:
            delivery.body  # noqa: B018 - decodes it
        except UnprocessableMessage as error:
            if isinstance(error, UnfitMessage):
                settlement = yield from pass_on(queue, delivery, error)
            else:
                (settlement,) = yield from poison(
                    queue, [delivery._held], error, reason="unprocessable", values=delivery._values
                )
            if undecodable is None:
                _log(delivery, settlement, error)
            else:
                undecodable(delivery, settlement, error)
        else:
            good.append(delivery)
    return good


def _log(delivery: Leased[Any], settlement: Settlement, error: UnprocessableMessage) -> None:
    passed_on = settlement.outcome == "passed_on"
    logger.log(
        logging.WARNING if passed_on else logging.ERROR,
        "%s is not delivered: %s; it is %s",
        f"{delivery.queue} {delivery.id}",
        visible_line(str(error)),
        "passed on to another version of the program" if passed_on else settlement.outcome,
    )


def _fitting(queue: QueueState[Any], deliveries: list[D], count: int, *, suspects: bool) -> Steps[list[D]]:
    """The deliveries of a resumed claim that fit; the rest is released.

    Args:
        count: the most deliveries, since the earlier claim may have asked for more; 0: any number.
        suspects: also take messages that lapsed. The earlier claim may have had a permit that this one lacks.
    """
    fit = [delivery for delivery in deliveries if suspects or not delivery.lapsed][: count or None]
    if len(fit) < len(deliveries):
        kept = {delivery.id for delivery in fit}
        rest = [delivery._held for delivery in deliveries if delivery.id not in kept]
        yield from release(queue, rest, begun=False)
    return fit
