"""A gather as its opener has it: it is opened, takes children, and is closed or cancelled."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from rq_dlq.core.gathers import calls
from rq_dlq.core.gathers.carrying import carry_soon
from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.sending.answers import answer, past
from rq_dlq.core.sending.ignored import warn_if_ignored
from rq_dlq.core.sending.packing import check_sent_as_is, packed
from rq_dlq.core.sending.send import observed
from rq_dlq.core.steps.confirm import taken_in, unconfirmed
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.senders import answered
from rq_dlq.errors import CrossSlot, InvalidInput, KnownId
from rq_dlq.values.durations import milliseconds, shown
from rq_dlq.values.observer import Sending
from rq_dlq.values.sent import SentBefore

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import Addressed, SendOptions
    from rq_dlq.core.steps.call import Argument, Call, Sender
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import Sent

MOST: Final = 10_000  # children of a gather
WHAT: Final = "send to"


@dataclass
class Gathering:
    """A gather.

    Attributes:
        then: the message that becomes due.
        within: milliseconds until it is delivered in any case.
        id: of the gather, which is the id of `then`; empty: it is not open yet.
        queues: those that children were sent to, by their names.
        children: the ids that were sent, each with its queue and its birth.
        over: it takes no more children.
        drawn: the id that was drawn for `then`; empty: its sender has chosen one.
    """

    then: Addressed
    within: int
    id: str = ""
    queues: dict[str, QueueState[Any]] = field(default_factory=dict[str, "QueueState[Any]"])
    children: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    over: bool = False
    drawn: str = ""

    @property
    def name(self) -> str:
        """The name of the gather in the queues of its children."""
        return calls.share(self.id, self.then.queue.keys.family)


def gather_of(then: Addressed, within: Duration | None) -> Gathering:
    """A gather that is not open yet.

    Raises:
        InvalidInput: `within` is not a duration, or `then` has a delay or a time to live.
    """
    if within is None:
        raise InvalidInput("within=None: say when `then` is delivered although children are open, as '1d'")
    if then.options.delay or then.options.ttl or then.options.raises:
        raise InvalidInput(
            "`then` has no delay and no ttl, and is new: pass within=…, the longest wait for it"
        )
    check_sent_as_is(then.options, "a gather")
    return Gathering(then, milliseconds(within, name="within", minimum=1))


def open_gather(gather: Gathering) -> Steps[None]:
    """Send `then`, scheduled for the end of `within`.

    Raises:
        InvalidInput: it is open, or was.
        KnownId: the queue has the id of `then`.
        Unconfirmed, BrokerRefused, BrokerUnavailable: as for a send.
    """
    if gather.id:
        raise InvalidInput(f"the gather {gather.id} was opened before: make another with broker.gather(…)")
    queue, body, message_id, options = gather.then
    if message_id is None:
        message_id = gather.drawn = next(queue.client.ids.drawn())

    def call(sender: Sender, items: list[Argument]) -> Call[Any]:
        return calls.open_gather(sender, within=gather.within, items=items, opening=queue.opening)

    sent = yield from _observed(queue, body, message_id, replace(options, raises=True), call)
    gather.id = str(sent)


def abandon(gather: Gathering) -> Steps[None]:
    """Cancel a gather whose opening was cut off: `then` may have been sent.

    Where the sender has chosen its id, a `then` under it may be another program's, and stays.
    """
    if gather.drawn and not gather.id:
        gather.id = gather.drawn
        yield from cancel(gather)


def send_child(gather: Gathering, message: Addressed) -> Steps[Sent]:
    """Send a child.

    Raises:
        InvalidInput: the gather is not open, or has 10,000 children; a child in another queue has the id; or
            the queue is in another namespace than that of `then`.
        KnownId: the message is a child of another gather; nothing was sent.
        CrossSlot: a cluster keeps its queue and that of `then` on different nodes; nothing was sent.
        Unconfirmed, BrokerRefused, BrokerUnavailable: as for a send.
    """
    queue, body, message_id, options = message
    check_sent_as_is(options, "a gather")
    if not gather.id or gather.over:
        raise InvalidInput("send the children of a gather in its `with` block, before it ends")
    _check_namespace(queue, gather.then.queue)
    if message_id is not None and message_id in gather.children:  # also if it was acked since
        return SentBefore(message_id, None, _before(gather, queue, message_id))
    if len(gather.children) >= MOST:
        raise InvalidInput(f"a gather has {MOST:,} children at most: `then` may open the next one")

    def call(sender: Sender, items: list[Argument]) -> Call[Any]:
        return calls.send_children(
            sender, gather.then.queue.keys, id=gather.id, delay=options.delay, ttl=options.ttl, items=items,
            opening=queue.opening,
        )  # fmt: skip

    family, is_first = queue.keys.family, queue.keys.family not in gather.queues
    gather.queues[family] = queue  # before the call, whose outcome may stay unknown
    try:
        sent = yield from _observed(queue, body, message_id, options, call)
    except CrossSlot:
        if is_first:
            del gather.queues[family]
        raise
    gather.children[str(sent)] = family, sent.birth or 0
    return sent


def _check_namespace(queue: QueueState[Any], target: QueueState[Any]) -> None:
    """Check that the queues are in one namespace: names of gathers have none (lua/gathers.lua)."""
    if queue.keys.namespace != target.keys.namespace:
        raise InvalidInput(
            f"{queue.name!r} is in the namespace {queue.keys.namespace!r}, and `then` is in "
            f"{target.keys.namespace!r}: pass queues of one namespace to a gather"
        )


def _before(gather: Gathering, queue: QueueState[Any], message_id: str) -> int:
    """The birth of a child that was sent before.

    Raises:
        InvalidInput: it is in another queue.
    """
    family, birth = gather.children[message_id]
    if family != queue.keys.family:
        raise InvalidInput(
            f"the gather has a child {shown(message_id)} in {family!r}, so nothing was sent to "
            f"{queue.name!r}: pass ids that differ, since `then` tells the children apart by their ids"
        )
    return birth


def close(gather: Gathering) -> Steps[None]:
    """Close a gather: `then` is due as soon as all children have ended. It may be repeated.

    Raises:
        InvalidInput: the gather was not opened.
    """
    if not gather.id:
        raise InvalidInput("the gather is not open: there is nothing to close")
    gather.over = True
    queues, target = list(gather.queues.values()), gather.then.queue.keys
    ended: list[int] = yield calls.close_gather(target, [queue.keys for queue in queues], id=gather.id)
    for number in ended:
        yield from carry_soon(queues[number], gather.name)


def cancel(gather: Gathering, by: str | None = None) -> Steps[int]:
    """Cancel the children that wait, and `then`, if it waits for them; how many messages that were.

    Raises:
        InvalidInput: the gather was not opened, or `by` is not a name.
    """
    if not gather.id:
        raise InvalidInput("the gather is not open: there is nothing to cancel")
    act = yield from act_of("cancelled", by, chosen=f"the gather {gather.id}")
    gather.over = True
    target = gather.then.queue.keys
    cancelled, _ = yield calls.cancel_gather(target, calls.own(gather.id), left=0, act=act)
    for queue in gather.queues.values():
        left = 0
        while True:
            count, more = yield calls.cancel_gather(queue.keys, gather.name, left=left, act=act)
            cancelled, left = cancelled + count, left + more
            if count + more < calls.CARRIED:
                break
        yield from carry_soon(queue, gather.name)
    return cast("int", cancelled)


def _observed(
    queue: QueueState[Any],
    body: Any,
    message_id: str | None,
    options: SendOptions,
    call: Callable[[Sender, list[Argument]], Call[Any]],
) -> Steps[Sent]:
    if not queue.client.observers:
        return (yield from _sent(queue, body, message_id, call, options))
    known_id = next(queue.client.ids.drawn()) if message_id is None else message_id
    sending = Sending(queue.name, known_id, options.headers)
    return (yield from observed(queue, sending, options, partial(_sent, queue, body, known_id, call)))


def _sent(
    queue: QueueState[Any],
    body: Any,
    message_id: str | None,
    call: Callable[[Sender, list[Argument]], Call[Any]],
    options: SendOptions,
) -> Steps[Sent]:
    """Make a call that sends one message. A queue that was deleted is opened again."""
    yield from open_live(queue, WHAT)
    items: list[Argument] = [*packed(queue, body, message_id, options)]
    ids = [str(items[0])]
    if options.said:
        yield from warn_if_ignored(queue, options.said)
    while True:
        sender = queue.client.senders.lend(queue.keys)
        (taken,), why = yield from taken_in(queue.client.confirm, queue.keys, [call(sender, items)])
        yield from answered([sender])
        queue.client.senders.take_back(sender)
        if taken is not None:
            break
        yield from open_again(queue, WHAT)
    if taken is Word.OVER:
        raise ERRORS[Word.OVER](
            "the gather is over: its `within` has passed, or its `then` was cancelled, purged or delivered; "
            "nothing was sent"
        )
    if taken is Word.PAST:
        raise past(options.ttl)
    if isinstance(taken, calls.Refused):
        raise KnownId(f"{shown(ids[0])} is a child of another gather, or its `then`: nothing was sent", ids)
    if why:
        raise unconfirmed(ids, why)
    return answer(queue, ids, taken.births(1), taken.known, raises=options.raises)[0]
