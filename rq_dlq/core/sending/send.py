"""Sending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.sending.answers import answer
from rq_dlq.core.sending.ignored import warn_if_ignored
from rq_dlq.core.sending.packing import SendOptions, asks_result, own_options, packed, packer
from rq_dlq.core.steps.confirm import taken_in, unconfirmed
from rq_dlq.core.steps.senders import answered
from rq_dlq.core.steps.step import CHUNK, CHUNK_BYTES, WINDOW, Steps
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_HEADERS
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.flags import check_flag
from rq_dlq.values.message import Message
from rq_dlq.values.observer import Sending
from rq_dlq.values.sent import Sent

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Argument

T = TypeVar("T")
R = TypeVar("R")


PLAIN = SendOptions()
_NO_TIMES = (None, None)

WithResult: TypeAlias = "Callable[[Sent], Sent]"
"""Gives the id of a message that asks for its result a method that gets it."""


@dataclass(slots=True)
class _Window:
    """What one round trip sends.

    Attributes:
        chunks: ids and payloads, flat.
        ids: all of them.
        asking: which of them ask for their results, by their places in `ids`.
    """

    chunks: list[list[Argument]] = field(default_factory=list["list[Argument]"])
    ids: list[str] = field(default_factory=list[str])
    asking: list[int] = field(default_factory=list[int])


def send_options(
    delay: Duration | None,
    ttl: Duration | None,
    priority: int,
    headers: Mapping[str, str] | None,
    *,
    persistent: bool = True,
    new: bool = False,
    key: str | None = None,
    dependency: str | None = None,
    result: bool = False,
) -> SendOptions:
    """The options that a user passed, checked.

    Raises:
        InvalidDuration: a delay below 0 or a ttl below one millisecond.
        InvalidInput: `persistent`, `new` or `result` is neither True nor False.
    """
    plain = delay is None and ttl is None and headers is None and persistent is True and new is False
    plain = plain and result is False
    if plain and priority is DEFAULT_PRIORITY and key is None and dependency is None:  # nearly always
        return PLAIN
    check_flag(persistent, "persistent")
    check_flag(new, "new")
    check_flag(result, "result")
    return SendOptions(
        0 if delay is None else milliseconds(delay, name="delay"),
        0 if ttl is None else milliseconds(ttl, name="ttl", minimum=1),
        priority,
        headers or NO_HEADERS,
        persistent,
        new,
        key=key,
        dependency=dependency,
        result=result,
    )


def send_one(queue: QueueState[T], body: T, message_id: str | None, options: SendOptions) -> Steps[Sent]:
    """Send one message; its id.

    Raises:
        Unconfirmed: too few replicas have it.
        KnownId: `new` was passed, and the queue already has the id.
    """
    if not queue.observers:
        return _send_one(queue, body, message_id, options)
    known_id = next(queue.ids.drawn()) if message_id is None else message_id
    sending = Sending(queue.name, known_id, options.headers)
    return observed(queue, sending, options, partial(_send_one, queue, body, known_id))


def observed(
    queue: QueueState[Any], sending: Sending, options: SendOptions, send: Callable[[SendOptions], Steps[R]]
) -> Steps[R]:
    """Send as the observers see it, with the headers that they give to the messages."""
    with queue.observers.sending(sending):
        sent = yield from send(options.carrying(sending.carried))
        each = [sent] if isinstance(sent, Sent) else cast("list[Sent]", sent)
        sending.count = sum(one.new is not False for one in each)
    return sent


def _send_one(queue: QueueState[T], body: T, message_id: str | None, options: SendOptions) -> Steps[Sent]:
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
        sender = queue.senders.lend(queue.keys)
        call = sending_calls.send(
            sender, delay=options.delay, ttl=options.ttl, items=item, opening=queue.opening
        )
        if queue.confirm is None:
            taken = yield call
        else:
            (taken,), why = yield from taken_in(queue.confirm, queue.keys, [call])
        if sender.number == 1:
            yield from answered([sender])
        queue.senders.take_back(sender)
        if taken is not None:
            break
        yield from open_again(queue, "send to")  # it was deleted
    if why:
        raise unconfirmed(item[:1], why)
    if not taken.known:  # nearly always
        sent = Sent(item[0])
        sent._birth = taken.birth  # noqa: SLF001 - not by `sent_with`: one call less for each send
        return sent
    return answer(queue, item[:1], [0], taken.known, new=options.new)[0]


def _put(
    queue: QueueState[Any], chunks: Sequence[Sequence[Argument]], options: SendOptions
) -> Steps[tuple[list[int], sending_calls.Places, str]]:
    """Send items (id, payload, …). A queue that was deleted is opened again.

    Returns:
        Of all chunks: the births of the items; those that the queue already had; and why they are not
        confirmed.

    Raises:
        InvalidInput: the name now belongs to dead letters; the messages of these chunks were not sent.
    """
    # One sender each, since they may arrive out of order.
    firsts = accumulate((len(items) // 2 for items in chunks), initial=0)
    left = [
        (queue.senders.lend(queue.keys), first, items) for first, items in zip(firsts, chunks, strict=False)
    ]
    births = [0] * sum(len(items) // 2 for items in chunks)
    known, why = dict[int, sending_calls.Place](), ""
    replies: list[sending_calls.Taken | None]
    while True:
        calls = [
            sending_calls.send(
                sender, delay=options.delay, ttl=options.ttl, items=items, opening=queue.opening
            )
            for sender, _, items in left
        ]
        replies, problem = yield from taken_in(queue.confirm, queue.keys, calls)
        why = why or problem
        yield from answered([sender for sender, _, _ in left])
        refused: list[tuple[int, Sequence[Argument]]] = []
        for (sender, first, items), taken in zip(left, replies, strict=True):
            queue.senders.take_back(sender)
            if taken is None:
                refused.append((first, items))
                continue
            born = taken.births(len(items) // 2)
            births[first : first + len(born)] = born
            known.update((first + n, place) for n, place in taken.known.items())
        if not refused:
            return births, known, why
        left = [(queue.senders.lend(queue.keys), first, items) for first, items in refused]
        yield from open_again(queue, "send to")


def send(
    queue: QueueState[T],
    bodies: Iterable[T | Message[T]],
    options: SendOptions,
    with_result: WithResult | None = None,
) -> Steps[list[Sent]]:
    """Send any number of messages, in chunks; their ids.

    An error has a note of how many were sent before it.

    Args:
        with_result: None: the caller does that, for all of them.

    Raises:
        InvalidInput: `bodies` is one body.
        Unconfirmed: too few replicas have some of them; those after them were not sent.
        KnownId: `new` was passed, and the queue already has some of the ids; those after this round trip were
            not sent.
    """
    if not queue.observers:
        return _send(queue, bodies, with_result, options)
    sending = Sending(queue.name, None, options.headers)
    return observed(queue, sending, options, partial(_send, queue, bodies, with_result))


def _send(
    queue: QueueState[T],
    bodies: Iterable[T | Message[T]],
    with_result: WithResult | None,
    options: SendOptions,
) -> Steps[list[Sent]]:
    if isinstance(bodies, str | bytes | bytearray | Mapping) or not isinstance(bodies, Iterable):
        kind = type(cast("object", bodies)).__name__
        message = f"send_many takes an iterable of bodies, not one of type {kind}: use send"
        raise InvalidInput(message)
    yield from open_live(queue, "send to")
    sent: list[Sent] = []
    try:
        for (delay, ttl), run in groupby(bodies, _times_of):
            own = own_options(Message(None, delay=delay, ttl=ttl), options)
            yield from _send_run(queue, run, own, with_result, sent)
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
) -> Steps[None]:
    """Send messages that share their times, and add their ids to `sent`."""
    while True:
        window = _window(queue, source, options)
        if not window.chunks:
            return
        if queue.said:
            yield from warn_if_ignored(queue, queue.said)
        births, known, why = yield from _put(queue, window.chunks, options)
        if why:
            raise unconfirmed(window.ids, why)
        answers = answer(queue, window.ids, births, known, new=options.new)
        if with_result is not None:
            for n in window.asking:
                answers[n] = with_result(answers[n])
        sent += answers


def _times_of(body: object) -> tuple[Duration | None, Duration | None]:
    """The delay and the time to live of a message itself; None: the call's."""
    return (body.delay, body.ttl) if isinstance(body, Message) else _NO_TIMES


def _window(queue: QueueState[T], source: Iterator[T | Message[T]], options: SendOptions) -> _Window:
    """The chunks of one round trip, about half a megabyte together."""
    window = _Window()
    size = 0
    while len(window.chunks) < WINDOW and size < CHUNK_BYTES:
        items, more = _items(queue, source, options, window, CHUNK_BYTES - size)
        if not items:
            break
        window.chunks.append(items)
        size += more
    return window


def _items(
    queue: QueueState[T], source: Iterator[T | Message[T]], options: SendOptions, window: _Window, most: int
) -> tuple[list[Argument], int]:
    """Ids and payloads of a chunk, flat, and their bytes: `most`, or one message more."""
    items: list[Argument] = []
    size = 0
    pack, all_ask = packer(queue, options), asks_result(queue, options)
    queue.said |= options.said
    drawn = queue.ids.drawn()
    for body in islice(source, CHUNK):
        if isinstance(body, Message):
            own = own_options(body, options)  # pyright: ignore[reportUnknownArgumentType]
            queue.said |= own.said
            message_id = body.id or next(drawn)
            payload = packer(queue, own)(body.body)  # pyright: ignore[reportUnknownArgumentType]
            asks = asks_result(queue, own)
        else:
            message_id, payload, asks = next(drawn), pack(body), all_ask
        if asks:
            window.asking.append(len(window.ids) + len(items) // 2)
        items.append(message_id)
        items.append(payload)
        size += len(payload)
        if size >= most:
            break
    window.ids += cast("list[str]", items[::2])
    return items, size
