"""Sending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.sending.answers import answer, refusal
from rq_dlq.core.sending.ignored import warn_if_ignored
from rq_dlq.core.sending.packing import SendOptions, duplicates, packed
from rq_dlq.core.sending.windows import check_named, checked, runs_of, window_of
from rq_dlq.core.steps.confirm import taken_in, unconfirmed
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.senders import answered
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_HEADERS
from rq_dlq.values.flags import check_flag
from rq_dlq.values.observer import Sending
from rq_dlq.values.sent import OnDuplicate, Sent, all_sent_with
from rq_dlq.values.times import due_of, end_of

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.answers import AllSent
    from rq_dlq.core.steps.call import Argument
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.message import Message

T = TypeVar("T")
R = TypeVar("R")


PLAIN = SendOptions()

WithResult: TypeAlias = "Callable[[Sent], Sent]"
"""Gives the id of a message that asks for its result a method that gets it."""


def send_options(
    delay: Duration | None = None,
    ttl: Duration | None = None,
    priority: int = DEFAULT_PRIORITY,
    headers: Mapping[str, str] | None = None,
    *,
    persistent: bool = True,
    on_duplicate: OnDuplicate = "drop",
    key: str | None = None,
    dependency: str | None = None,
    result: bool = False,
    at: datetime | None = None,
    expires_at: datetime | None = None,
    max_delay: Duration | None = None,
) -> SendOptions:
    """The options that a user passed, checked.

    Raises:
        InvalidDuration: a delay below 0 or a ttl below one millisecond.
        InvalidInput: `persistent` or `result` is neither True nor False, a time is not valid, or
            `on_duplicate` is not.
    """
    plain = (
        delay is None and ttl is None and headers is None and persistent is True and on_duplicate == "drop"
    )
    plain = plain and result is False and at is None and expires_at is None and max_delay is None
    if plain and priority is DEFAULT_PRIORITY and key is None and dependency is None:  # nearly always
        return PLAIN
    check_flag(persistent, "persistent")
    check_flag(result, "result")
    return SendOptions(
        due_of(delay, at),
        end_of(ttl, expires_at),
        priority,
        headers or NO_HEADERS,
        persistent,
        key=key,
        dependency=dependency,
        result=result,
        **duplicates(on_duplicate, max_delay, delay),
    )


def send_one(queue: QueueState[T], body: T, message_id: str | None, options: SendOptions) -> Steps[Sent]:
    """Send one message; its id.

    Raises:
        Unconfirmed: too few replicas have it.
        KnownId: the queue already has the id, and that is an error, or its message has another key.
    """
    if message_id is None and options.call is not sending_calls.send:
        check_named(None)
    if not queue.client.observers:
        return _send_one(queue, body, message_id, options)
    known_id = next(queue.client.ids.drawn()) if message_id is None else message_id
    sending = Sending(queue.name, known_id, options.headers)
    return observed(queue, sending, options, partial(_send_one, queue, body, known_id))


def observed(
    queue: QueueState[Any], sending: Sending, options: SendOptions, send: Callable[[SendOptions], Steps[R]]
) -> Steps[R]:
    """Send as the observers see it, with the headers that they give to the messages."""
    with queue.client.observers.sending(sending):
        sent = yield from send(options.carrying(sending.carried))
        each = [sent] if isinstance(sent, Sent) else cast("list[Sent]", sent)
        sending.count = sum(one.new is not False for one in each)
    return sent


def _send_one(  # noqa: C901 - a helper would add a frame to each send
    queue: QueueState[T], body: T, message_id: str | None, options: SendOptions
) -> Steps[Sent]:
    if queue.view or queue.part != "live":
        yield from open_live(queue, "send to")  # a view may be a queue by now
    item = packed(queue, body, message_id, options)
    if not queue.opened:
        yield from open_live(queue, "send to")
    if options.key is not None or options.dependency is not None:
        yield from warn_if_ignored(queue, options.said)
    taken: sending_calls.Taken | None = None
    why = ""
    while True:
        sender = queue.client.senders.lend(queue.keys)
        enter = sending_calls.verb_for(queue, options.call)
        call = enter(sender, delay=options.delay, ttl=options.ttl, items=item, opening=queue.opening)
        if queue.client.confirm is None:
            taken = yield call
        else:
            (taken,), why = yield from taken_in(queue.client.confirm, queue.keys, [call])
        if sender.number == 1:
            yield from answered([sender])
        queue.client.senders.take_back(sender)
        if taken is not None:
            break
        yield from open_again(queue, "send to")  # it was deleted
    if taken.refused is not None:
        if taken.refused is Word.LIMITED:
            queue.limited = True
            return (yield from _send_one(queue, body, item[0], options))
        raise refusal(queue.name, taken, options.ttl)
    if why:
        raise unconfirmed(item[:1], why)
    if not taken.known:  # nearly always
        sent = Sent(item[0])
        sent._birth = taken.birth  # noqa: SLF001 - not by `sent_with`: one call less for each send
        return sent
    return answer(queue, item[:1], [0], taken.known, raises=options.raises)[0]


class _Put(NamedTuple):
    """What the queue did with all chunks of a window.

    Attributes:
        births: of the items.
        known: those that the queue already had.
        unconfirmed: why they are not confirmed; empty: they are.
        refused: the reply for a chunk that was refused; None: none was.
    """

    births: list[int]
    known: sending_calls.Places
    unconfirmed: str
    refused: sending_calls.Taken | None


def _put(queue: QueueState[Any], chunks: Sequence[Sequence[Argument]], options: SendOptions) -> Steps[_Put]:
    """Send items (id, payload, …). A queue that was deleted is opened again; a limited one has its own verb.

    Raises:
        InvalidInput: the name now belongs to dead letters; the messages of these chunks were not sent.
    """
    # One sender each, since they may arrive out of order.
    firsts = accumulate((len(items) // 2 for items in chunks), initial=0)
    left = [
        (queue.client.senders.lend(queue.keys), first, items)
        for first, items in zip(firsts, chunks, strict=False)
    ]
    births = [0] * sum(len(items) // 2 for items in chunks)
    known, why = dict[int, sending_calls.Place](), ""
    refused: sending_calls.Taken | None = None
    replies: list[sending_calls.Taken | None]
    while True:
        enter = sending_calls.verb_for(queue, options.call)
        calls = [
            enter(sender, delay=options.delay, ttl=options.ttl, items=items, opening=queue.opening)
            for sender, _, items in left
        ]
        replies, problem = yield from taken_in(queue.client.confirm, queue.keys, calls)
        why = why or problem
        yield from answered([sender for sender, _, _ in left])
        gone: list[tuple[int, Sequence[Argument]]] = []
        for (sender, first, items), taken in zip(left, replies, strict=True):
            queue.client.senders.take_back(sender)
            if taken is None or taken.refused is Word.LIMITED:
                queue.limited = queue.limited or taken is not None
                gone.append((first, items))
                continue
            if taken.refused is not None:
                refused = taken
                continue
            born = taken.births(len(items) // 2)
            births[first : first + len(born)] = born
            known.update((first + n, place) for n, place in taken.known.items())
        if not gone:
            return _Put(births, known, why, refused)
        left = [(queue.client.senders.lend(queue.keys), first, items) for first, items in gone]
        if None in replies:
            yield from open_again(queue, "send to")


def send(
    queue: QueueState[T],
    bodies: Iterable[T | Message[T]],
    options: SendOptions,
    with_result: WithResult | None = None,
    all_sent: AllSent = all_sent_with,
) -> Steps[list[Sent]]:
    """Send any number of messages, in chunks; their ids.

    An error has a note of how many were sent before it.

    Args:
        with_result: None: they get none, or `all_sent` gives it to all.
        all_sent: makes what is returned, of new messages.

    Raises:
        InvalidInput: `bodies` is one body.
        Unconfirmed: too few replicas have some of them; those after them were not sent.
        KnownId: the queue already has some of the ids, and that is an error, or their messages have other
            keys; those after this round trip were not sent.
    """
    if not queue.client.observers:
        return _send(queue, bodies, with_result, all_sent, options)
    sending = Sending(queue.name, None, options.headers)
    return observed(queue, sending, options, partial(_send, queue, bodies, with_result, all_sent))


def several(bodies: Iterable[T]) -> Iterable[T]:
    """The bodies of `send_many`.

    Raises:
        InvalidInput: it is one body.
    """
    if isinstance(bodies, str | bytes | bytearray | Mapping) or not isinstance(bodies, Iterable):
        kind = type(cast("object", bodies)).__name__
        message = f"send_many takes an iterable of bodies, not one of type {kind}: use send"
        raise InvalidInput(message)
    return bodies


def _send(
    queue: QueueState[T],
    bodies: Iterable[T | Message[T]],
    with_result: WithResult | None,
    all_sent: AllSent,
    options: SendOptions,
) -> Steps[list[Sent]]:
    several(bodies)
    yield from open_live(queue, "send to")
    sent: list[Sent] = []
    try:
        for own, run in runs_of(bodies, options):
            yield from _send_run(queue, checked(run, own), own, with_result, sent, all_sent=all_sent)
    except RqDlqError as error:
        if sent:
            error.add_note(f"{len(sent):,} messages before it were sent")
        raise
    return sent


def _send_run(
    queue: QueueState[T],
    source: Iterator[T | Message[T]],
    options: SendOptions,
    with_result: WithResult | None,
    sent: list[Sent],
    *,
    all_sent: AllSent,
) -> Steps[None]:
    """Send messages that share their times and what happens to known ones, and add their ids to `sent`."""
    while True:
        window = window_of(queue, source, options)
        if not window.chunks:
            return
        if queue.said:
            yield from warn_if_ignored(queue, queue.said)
        put = yield from _put(queue, window.chunks, options)
        if put.refused is not None:
            done = enumerate(window.ids)
            sent += [Sent(message_id) for n, message_id in done if put.births[n] or n in put.known]
            raise refusal(queue.name, put.refused, options.ttl)
        if put.unconfirmed:
            raise unconfirmed(window.ids, put.unconfirmed)
        answers = answer(queue, window.ids, put.births, put.known, raises=options.raises, all_sent=all_sent)
        if with_result is not None:
            for n in window.asking:
                answers[n] = with_result(answers[n])
        sent += answers
