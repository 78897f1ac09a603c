"""Sessions: messages are sent and acked together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rq_dlq.core.jobs.jobs import GRACE
from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.sending.answers import full
from rq_dlq.core.sending.ignored import warn_if_ignored
from rq_dlq.core.sending.packing import packed
from rq_dlq.core.sending.send import observed
from rq_dlq.core.sessions import calls, staging
from rq_dlq.core.sessions.shares import ids_of, shares_of
from rq_dlq.core.settling.calls import NO_RESULTS
from rq_dlq.core.settling.settle import family_of, nack, release, settle_by_error, values_of
from rq_dlq.core.steps.call import repetition
from rq_dlq.core.steps.confirm import taken_in, unconfirmed
from rq_dlq.core.steps.indeterminate import is_indeterminate
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.senders import answered
from rq_dlq.core.steps.step import MOST
from rq_dlq.errors import (
    BrokerRefused,
    BrokerUnavailable,
    CrossSlot,
    InvalidInput,
    KnownId,
    LeaseLost,
    Poison,
    Redeliver,
    RqDlqError,
)
from rq_dlq.values.durations import human
from rq_dlq.values.observer import Sending
from rq_dlq.values.readable import some
from rq_dlq.values.sent import Unsent
from rq_dlq.values.settlement import Settlement

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.core.steps.call import Call, Sender
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.sent import Sent

T = TypeVar("T")
NAMED = 5  # ids that an error names


@dataclass
class SessionState:
    """The messages that a session has claimed, and those that it will send.

    Attributes:
        targets: the queues that it sends to.
        sender: of the current commit.
        shares: the acks and sends of the current commit.
        indeterminate: a commit whose outcome is unknown; the next one repeats it (I12).
        results: by id, for the messages that it acks.
        strict: a known id refuses its commit; it stages nothing.
        again: the caller's hint to repeat a commit.
    """

    strict: ClassVar[bool] = False
    again: ClassVar[str] = "commit"

    queue: QueueState[Any]
    claimed: list[Leased[Any]] = field(default_factory=list["Leased[Any]"])
    outgoing: dict[QueueKeys, dict[tuple[int, int], list[Any]]] = field(
        default_factory=dict["QueueKeys", dict[tuple[int, int], list[Any]]]
    )
    targets: dict[QueueKeys, QueueState[Any]] = field(default_factory=dict["QueueKeys", "QueueState[Any]"])
    sent: int = 0
    sender: Sender | None = None
    shares: Sequence[calls.Share] = ()
    indeterminate: Call[calls.Ended] | None = None
    results: Mapping[str, bytes] = field(default_factory=lambda: NO_RESULTS)

    @property
    def held(self) -> list[Leased[Any]]:
        """The claimed messages that were not settled one by one."""
        return [delivery for delivery in self.claimed if not delivery.settled]

    def clear(self) -> None:
        """Forget everything, for the next transaction."""
        self.claimed, self.outgoing, self.targets, self.sent = [], {}, {}, 0
        self.sender = self.indeterminate = None
        self.shares = ()


def capacity_for(session: SessionState, count: int) -> int:
    """How many of `count` messages may be claimed: the end of a session is one call, so it has a limit.

    Raises:
        InvalidInput: none, or the outcome of the last commit is unknown.
    """
    _check_determinate(session)
    capacity = MOST - len(session.held)
    if capacity < 1:
        raise InvalidInput(f"a session holds at most {MOST:,} deliveries: commit() before more")
    return min(count, capacity)


def send(
    session: SessionState, queue: QueueState[T], body: T, message_id: str | None, options: SendOptions
) -> Steps[Sent]:
    """Keep a message until the end of the session; its id.

    Raises:
        InvalidInput: an argument is not valid, or the session sends too much.
    """
    if not queue.client.observers:
        return _stage(session, queue, body, message_id, options)
    known_id = next(queue.client.ids.drawn()) if message_id is None else message_id
    sending = Sending(queue.name, known_id, options.headers, staged=True)
    return observed(queue, sending, options, partial(_stage, session, queue, body, known_id))


def _stage(
    session: SessionState, queue: QueueState[T], body: T, message_id: str | None, options: SendOptions
) -> Steps[Sent]:
    _check_determinate(session)
    yield from open_live(queue, "send to")
    if session.sent == MOST:
        raise InvalidInput(f"a session sends at most {MOST:,} messages: commit() before more")
    item = packed(queue, body, message_id, options)
    if options.said:
        yield from warn_if_ignored(queue, options.said)
    session.targets[queue.keys] = queue
    groups = session.outgoing.setdefault(queue.keys, {})
    groups.setdefault((options.delay, options.ttl), []).extend(item)
    session.sent += 1
    return Unsent(item[0])


def _check_determinate(session: SessionState) -> None:
    if session.indeterminate is not None:
        raise InvalidInput("the outcome of the last commit is unknown: commit() again or rollback() first")


def commit(session: SessionState) -> Steps[int]:
    """Send and ack all, or nothing; how many were acked.

    Raises:
        LeaseLost: some leases were lost; nothing was done.
        CrossSlot: a cluster keeps the queues on different nodes; nothing was done.
        Unconfirmed: it is done, but too few replicas have the sent messages; commit again to ask again.
        BrokerUnavailable: the outcome may be unknown; commit again to find out. It does nothing twice.
        BrokerRefused: the server refused it, or lost the staged messages; nothing was done.
        InvalidInput: it sends a message under the id of one that it acks, or to a name that a policy has
            given to dead letters since, or the `expires_at` of a message has passed; nothing was done.
        QueueFull: a queue has no room for what is sent to it; nothing was done.
        KnownId: it is strict, and a queue has the id of a message that it sends; nothing was done.
    """
    held = session.held
    if before := session.indeterminate:
        call = repetition(before)
    else:
        shares = shares_of(session.queue, held, session.outgoing, session.targets, session.results)
        session.shares = shares if session.strict else (yield from staging.staged(shares))
        if not session.shares:
            return 0
        call = session.indeterminate = _ending(session, session.shares)
    keys = next(iter(session.outgoing), session.queue.keys)
    ended: calls.Ended
    try:
        (ended,), why = yield from taken_in(
            session.queue.client.confirm if session.sent else None, keys, [call]
        )
    except RqDlqError as error:
        session.indeterminate = call if before or is_indeterminate(error) else None
        raise
    if ended.verdict is Word.DELETED:
        session.indeterminate = None
        for queue in session.targets.values():
            yield from open_again(queue, "send to")
        return (yield from commit(session))
    if why and ended.verdict:
        raise unconfirmed(ids_of(session.outgoing), why, f"{session.again}() again, which is safe")
    if ended.verdict is Word.DONE:
        yield from _finish(session)  # cut off in here, it is still repeated
    session.indeterminate = None
    _check_done(ended)
    _note_acked(session.queue, held)
    _warn(session.queue, ended)
    session.clear()
    return len({(family_of(session.queue, delivery.token), delivery.id) for delivery in held})


def _check_done(ended: calls.Ended) -> None:
    """Raise an error if a commit did nothing."""
    if ended.verdict is Word.LOST:
        raise ERRORS[ended.verdict](
            "the session was not committed, nothing was sent or acked: the lease on "
            f"{some(ended.lost, NAMED)} was lost. Use a longer lease, or extend it"
        )
    if ended.verdict is Word.INCOMPLETE:
        raise ERRORS[ended.verdict](
            "the session was not committed, nothing was sent or acked: its staged messages are gone, since "
            f"they wait {human(staging.WAITS)} for the commit, or the server lost them. Commit again"
        )
    if ended.verdict is Word.PAST:
        raise ERRORS[ended.verdict](staging.PAST)
    if ended.verdict is Word.FULL:
        raise _full(*ended.full)
    if ended.verdict is Word.KNOWN:
        known = [f"{message_id} in {family!r}" for family, message_id in ended.known]
        raise KnownId(
            f"{some(known, NAMED)}: the queue has it already, dead or alive, or remembers its ack, so "
            "nothing was sent or acked. If it is what this message leads to, ack() without it; `rq-dlq msg "
            "explain` says where it is",
            [message_id for _, message_id in ended.known],
            charge=False,
        )


def _full(queue: str, length: int) -> RqDlqError:
    if length >= 0:
        return full(queue, length, "nothing was sent or acked. Commit again", charge=False)
    return InvalidInput(
        f"{queue} has a max_length, so it takes at most half a megabyte of a session, or one message: "
        "nothing was sent or acked. Commit more often"
    )


def _finish(session: SessionState) -> Steps[None]:
    """The remaining work when a session is committed."""
    if sender := session.sender:
        yield from answered([sender])
    yield from staging.move_all(session.shares)
    if sender:
        session.queue.client.senders.take_back(sender)


def _warn(queue: QueueState[Any], ended: calls.Ended) -> None:
    """Warn of messages that were not sent, since their ids are known."""
    for family, message_id in ended.blocked:
        queue.client.blocked.warn(family, [message_id])
    for family, message_id in ended.other_keys:
        queue.client.blocked.warn_of_keys(family, [message_id])


def _note_acked(queue: QueueState[Any], deliveries: Sequence[Leased[Any]]) -> None:
    for delivery in deliveries:
        delivery.outcome = "acked"
    if queue.client.observers:
        held = [delivery._held for delivery in deliveries]
        queue.client.observers.settled(queue.name, held, [Settlement(id, "acked") for id, _ in held])


def _ending(session: SessionState, shares: Sequence[calls.Share]) -> Call[calls.Ended]:
    """The one call that ends the session; one that only acks also runs when memory is full."""
    if len(shares) == 1 and not session.sent:
        return calls.ack_all(shares[0].keys, shares[0].held)
    session.sender = session.queue.client.senders.lend(shares[0].keys)
    return calls.commit(session.sender, shares, grace=GRACE, strict=session.strict)


def rollback(session: SessionState, error: BaseException | str | None) -> Steps[int]:
    """Send nothing, and settle each delivery individually; returns how many were still held."""
    session.outgoing, session.targets, session.sent = {}, {}, 0
    held = session.held
    failed = error if isinstance(error, BaseException) else RolledBack(error or "the session was rolled back")
    settlements = yield from _give_back(session.queue, held, failed)
    for delivery, settlement in zip(held, settlements, strict=True):
        delivery.outcome = settlement.outcome
    session.clear()
    return sum(map(bool, settlements))


def _give_back(
    queue: QueueState[Any], deliveries: Sequence[Leased[Any]], error: BaseException
) -> Steps[list[Settlement]]:
    """Settle by the error that ended a session.

    A lost lease, or a server or a queue that refuses, is not a failure of the messages, so they are not
    charged. A fatal error does not show which of several messages it is about, so none dies of it before its
    budget is spent.
    """
    held = [delivery._held for delivery in deliveries]
    values = values_of(deliveries)
    if not held:
        return []
    if isinstance(error, LeaseLost):
        return (yield from release(queue, held))
    refused = isinstance(error, BrokerRefused) and not isinstance(error, CrossSlot)  # which fails every time
    if refused or (isinstance(error, KnownId) and not error.charge):
        return (yield from nack(queue, held, error, charge=False, values=values))
    if len(held) == 1 or isinstance(error, Redeliver) or not isinstance(error, Exception):
        return (yield from settle_by_error(queue, held, error, values))
    lenient = replace(queue, redelivery=replace(queue.redelivery, fatal=()))
    return (yield from nack(lenient, held, error, values=values))


def end(session: SessionState, error: BaseException | None) -> Steps[bool]:
    """End a `with` block: commit, or roll back by its error; whether the block swallows the error."""
    if error is not None:
        yield from rollback(session, error)
        return isinstance(error, Redeliver | Poison)
    try:
        yield from commit(session)
    except BrokerUnavailable:
        raise  # it may have been committed: a rollback would be a guess
    except Exception as failure:
        if isinstance(failure, BrokerRefused) and failure.indeterminate:
            raise  # likewise
        yield from rollback(session, failure)
        raise
    return False


class RolledBack(Exception):  # noqa: N818 - the word for it
    """A session was rolled back; the text says why."""
