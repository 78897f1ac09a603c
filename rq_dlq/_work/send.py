"""Sending."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq import _calls
from rq_dlq._names import check_id
from rq_dlq._work.confirm import taken_in, unconfirmed
from rq_dlq._work.policies import open_queue
from rq_dlq._work.queue import Queue, only_live
from rq_dlq._work.steps import CHUNK, WINDOW, Steps
from rq_dlq.codec import DEFAULT_PRIORITY, NO_HEADERS
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rq_dlq._calls import Call
    from rq_dlq.codec import Codec

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What all messages of one call share; durations in milliseconds, ttl 0: none."""

    delay: int = 0
    ttl: int = 0
    priority: int = DEFAULT_PRIORITY
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    persistent: bool = True


def send_options(
    delay: Duration | None,
    ttl: Duration | None,
    priority: int,
    headers: Mapping[str, str] | None,
    persistent: bool = True,  # noqa: FBT001, FBT002 - as its callers pass it on
) -> SendOptions:
    """Read what a user typed.

    Raises:
        InvalidDuration: a delay below 0 or a ttl below one millisecond.
    """
    return SendOptions(
        0 if delay is None else milliseconds(delay, name="delay"),
        0 if ttl is None else milliseconds(ttl, name="ttl", minimum=1),
        priority,
        headers or NO_HEADERS,
        persistent,
    )


def send_one(queue: Queue[T], body: T, message_id: str | None, options: SendOptions) -> Steps[str]:
    """Send one message; its id.

    Raises:
        Unconfirmed: too few replicas have it.
    """
    only_live(queue, "send to")
    if message_id is None:
        message_id = queue.ids.draw()
    else:
        check_id(message_id)
    pack = queue.codec.packer(options.priority, options.headers, persistent=options.persistent)
    items = (message_id, pack(body))
    if not queue.opened:
        yield from open_queue(queue)
        only_live(queue, "send to")
    call = _calls.send(queue.keys, delay=options.delay, ttl=options.ttl, items=items)
    _, why = yield from taken_in(queue.confirm, queue.keys, [call])
    if why:
        raise unconfirmed([message_id], why)
    return message_id


def send(queue: Queue[T], bodies: Iterable[T | Message[T]], options: SendOptions) -> Steps[list[str]]:
    """Send any number of messages, in chunks; an error says how many were sent before it.

    Raises:
        Unconfirmed: too few replicas have some of them; those after them were not sent.
    """
    only_live(queue, "send to")
    if isinstance(bodies, str | bytes) or not isinstance(bodies, Iterable):
        message = f"send_many takes an iterable of bodies, not one of type {type(bodies).__name__}: use send"
        raise InvalidInput(message)
    yield from open_queue(queue)
    only_live(queue, "send to")
    sent: list[str] = []
    before, source = 0, iter(bodies)
    try:
        while True:
            before = len(sent)
            calls = [_send_chunk(queue, chunk, options, sent) for chunk in _chunks(source, CHUNK, WINDOW)]
            if not calls:
                return sent
            _, why = yield from taken_in(queue.confirm, queue.keys, calls)
            if why:
                raise unconfirmed(sent[before:], why)
    except RqDlqError as error:
        if before:
            error.add_note(f"{before:,} messages before it were sent")
        raise


def _chunks(source: Iterator[R], size: int, most: int) -> Iterator[list[R]]:
    for _ in range(most):
        chunk = list(islice(source, size))
        if not chunk:
            return
        yield chunk


def _send_chunk(
    queue: Queue[T], bodies: Iterable[T | Message[T]], options: SendOptions, sent: list[str]
) -> Call[list[int]]:
    items: list[bytes | str | int | float] = []
    pack, draw = (
        queue.codec.packer(options.priority, options.headers, persistent=options.persistent),
        queue.ids.draw,
    )
    for body in bodies:
        if isinstance(body, Message):
            message_id, payload = body.id or draw(), _pack_message(queue.codec, body, options)  # pyright: ignore[reportUnknownArgumentType]
        else:
            message_id, payload = draw(), pack(body)
        sent.append(message_id)
        items.append(message_id)
        items.append(payload)
    return _calls.send(queue.keys, delay=options.delay, ttl=options.ttl, items=items)


def _pack_message(codec: Codec[Any], message: Message[Any], options: SendOptions) -> bytes:
    """The payload of a message that may have a priority and headers of its own."""
    priority = options.priority if message.priority is None else message.priority
    headers = options.headers if message.headers is None else message.headers
    return codec.packer(priority, headers, persistent=options.persistent)(message.body)
