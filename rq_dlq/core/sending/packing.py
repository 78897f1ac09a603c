"""Messages as they are sent: an id and a payload each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_HEADERS
from rq_dlq.values.key import given_of
from rq_dlq.values.names import check_id
from rq_dlq.values.times import due_of, end_of

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.values.key import Of
    from rq_dlq.values.message import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The options that all messages of one call share; `delay` and `ttl` as in `values/times.py`.

    `new`: a known id is an error. `carried`: headers of observers; a message that has one of
    these names keeps its own, and gets none of them.
    """

    delay: int = 0
    ttl: int = 0
    priority: int = DEFAULT_PRIORITY
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    persistent: bool = True
    new: bool = False
    carried: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    key: str | None = None
    dependency: str | None = None
    result: bool = False

    @property
    def said(self) -> set[Of]:
        """Which of key and dependency the messages have."""
        return given_of(self.key, self.dependency)

    def carrying(self, carried: Mapping[str, str]) -> SendOptions:
        """The same options, with these headers of observers."""
        return replace(self, headers=joined(self.headers, carried), carried=carried) if carried else self


class Link(NamedTuple):
    """A message that an ack or a gather sends; an id of None: one is drawn."""

    queue: QueueState[Any]
    body: Any
    id: str | None
    options: SendOptions


def packer(queue: QueueState[T], options: SendOptions) -> Callable[[T], bytes]:
    """Packs bodies with these options."""
    return queue.codec.packer(
        options.priority,
        options.headers,
        persistent=options.persistent,
        key=options.key,
        dependency=options.dependency,
        result=options.result,
    )


def packed(queue: QueueState[T], body: T, message_id: str | None, options: SendOptions) -> tuple[str, bytes]:
    """The id of a message, drawn if None is given, and its payload."""
    if message_id is None:
        message_id = next(queue.client.ids.drawn())
    else:
        check_id(message_id)
    pack = queue.codec.packer(  # not by `packer`: one call less for each send
        options.priority,
        options.headers,
        persistent=options.persistent,
        key=options.key,
        dependency=options.dependency,
        result=options.result,
    )
    return message_id, pack(body)


def joined(headers: Mapping[str, str], carried: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of a message and those of observers, unless it has one of these names itself."""
    if not carried or not isinstance(headers, Mapping) or not carried.keys().isdisjoint(headers):
        return headers
    return {**headers, **carried}


def own_options(message: Message[Any], options: SendOptions) -> SendOptions:
    """The options of a message that may have some of its own."""
    has_due = message.delay is not None or message.at is not None
    has_end = message.ttl is not None or message.expires_at is not None
    return replace(
        options,
        delay=due_of(message.delay, message.at) if has_due else options.delay,
        ttl=end_of(message.ttl, message.expires_at) if has_end else options.ttl,
        priority=options.priority if message.priority is None else message.priority,
        headers=options.headers if message.headers is None else joined(message.headers, options.carried),
        key=options.key if message.key is None else message.key,
        dependency=options.dependency if message.dependency is None else message.dependency,
        persistent=options.persistent if message.persistent is None else message.persistent,
        result=options.result if message.result is None else message.result,
    )


def asks_result(queue: QueueState[Any], options: SendOptions) -> bool:
    """Whether the result of a message is kept, as far as this process knows: it asks, or its queue does."""
    return options.result or bool(queue.given.get("results"))
