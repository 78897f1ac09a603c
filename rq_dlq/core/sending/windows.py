"""The messages of one round trip: ids and payloads, in chunks of a call each."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from rq_dlq.core.sending.calls import send
from rq_dlq.core.sending.packing import asks_result, own_options, packer
from rq_dlq.core.steps.step import CHUNK, CHUNK_BYTES, WINDOW
from rq_dlq.errors import InvalidInput
from rq_dlq.values.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.core.steps.call import Argument
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.sent import OnDuplicate

    _Shared: TypeAlias = tuple[
        Duration | None,
        Duration | None,
        datetime | None,
        datetime | None,
        OnDuplicate | None,
        Duration | None,
    ]

T = TypeVar("T")
_NOTHING_SAID = (None, None, None, None, None, None)


@dataclass(slots=True)
class Window:
    """What one round trip sends.

    Attributes:
        chunks: ids and payloads, flat.
        ids: all of them.
        asking: which of them ask for their results, by their places in `ids`.
    """

    chunks: list[list[Argument]] = field(default_factory=list["list[Argument]"])
    ids: list[str] = field(default_factory=list[str])
    asking: list[int] = field(default_factory=list[int])


def runs_of(
    bodies: Iterable[T | Message[T]], options: SendOptions
) -> Iterator[tuple[SendOptions, Iterator[T | Message[T]]]]:
    """Messages that follow each other and share their times and what happens to known ones."""
    if options.encode is not None:
        yield options, iter(bodies)
        return
    for (delay, ttl, at, expires_at, known, most), run in groupby(bodies, _shared_by):
        shared: Message[Any] = Message(
            None, delay=delay, ttl=ttl, at=at, expires_at=expires_at, on_duplicate=known, max_delay=most
        )
        yield own_options(shared, options), run


def _shared_by(body: object) -> _Shared:
    """What a message says itself of its times and of known ids; None: the call's."""
    if not isinstance(body, Message):
        return _NOTHING_SAID
    return (body.delay, body.ttl, body.at, body.expires_at, body.on_duplicate, body.max_delay)


def window_of(queue: QueueState[T], source: Iterator[T | Message[T]], options: SendOptions) -> Window:
    """The chunks of one round trip, about half a megabyte together."""
    window = Window()
    size = 0
    while len(window.chunks) < WINDOW and size < CHUNK_BYTES:
        items, more = _items(queue, source, options, window, CHUNK_BYTES - size)
        if not items:
            break
        window.chunks.append(items)
        size += more
    return window


def _items(
    queue: QueueState[T], source: Iterator[T | Message[T]], options: SendOptions, window: Window, most: int
) -> tuple[list[Argument], int]:
    """Ids and payloads of a chunk, flat, and their bytes: `most`, or one message more."""
    items: list[Argument] = []
    size = 0
    pack, all_ask = packer(queue, options), asks_result(queue, options)
    queue.said |= options.said
    drawn, messages = queue.client.ids.drawn(), (Message,) if options.encode is None else ()
    for body in islice(source, CHUNK):
        if isinstance(body, messages):
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


def checked(bodies: Iterator[T | Message[T]], options: SendOptions) -> Iterator[T | Message[T]]:
    """Messages, each with an id if that is what the options are about."""
    return bodies if options.call is send else map(_named, bodies)


def _named(body: Any) -> Any:
    check_named(body.id if isinstance(body, Message) else None)
    return body  # pyright: ignore[reportUnknownVariableType] - of any body


def check_named(message_id: str | None) -> None:
    """Check that a message has an id, which may be known.

    Raises:
        InvalidInput: it has none.
    """
    if message_id is None:
        raise InvalidInput("on_duplicate is about an id that was sent before: pass id=…")
