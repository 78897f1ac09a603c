"""Messages as they are sent: an id and a payload each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args

from rq_dlq.core.sending.calls import resend, send
from rq_dlq.errors import InvalidInput
from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_HEADERS
from rq_dlq.values.durations import milliseconds, shown
from rq_dlq.values.key import given_of
from rq_dlq.values.names import check_id
from rq_dlq.values.sent import OnDuplicate
from rq_dlq.values.times import due_of, end_of

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.sending.calls import Sending, Taken
    from rq_dlq.core.steps.call import Argument, Call, Sender
    from rq_dlq.values.durations import Duration
    from rq_dlq.values.key import Of
    from rq_dlq.values.message import Message

T = TypeVar("T")
MODES: Final[tuple[str, ...]] = get_args(OnDuplicate)
MAX_DELAY: Final = "10m"


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The options that all messages of one call share; `delay` and `ttl` as in `values/times.py`.

    `raises`: a known id is an error. `call`: makes the call that sends; a `Resend` says what happens to a
    known message. `carried`: headers of observers; a message that has one of
    these names keeps its own, and gets none of them. `encode`: makes JSON of each of many bodies, none of
    which is then a `Message`, in place of the queue's codec; None: the codec does.
    """

    delay: int = 0
    ttl: int = 0
    priority: int = DEFAULT_PRIORITY
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    persistent: bool = True
    raises: bool = False
    call: Sending = send
    carried: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    key: str | None = None
    dependency: str | None = None
    result: bool = False
    encode: Callable[[Any], bytes] | None = None

    @property
    def said(self) -> set[Of]:
        """Which of key and dependency the messages have."""
        return given_of(self.key, self.dependency)

    def carrying(self, carried: Mapping[str, str]) -> SendOptions:
        """The same options, with these headers of observers."""
        return replace(self, headers=joined(self.headers, carried), carried=carried) if carried else self


class Resend(NamedTuple):
    """Makes the call that sends, and says what happens to a message with the same id; see `calls.resend`."""

    mode: str
    max_delay: int = 0
    known_for: int = 0

    def __call__(
        self, sender: Sender, *, delay: int, ttl: int, items: Sequence[Argument], opening: str
    ) -> Call[Taken | None]:
        """The call for these messages."""
        return resend(sender, delay=delay, ttl=ttl, items=items, opening=opening, **self._asdict())


class Addressed(NamedTuple):
    """A message that an ack or a gather sends; an id of None: one is drawn."""

    queue: QueueState[Any]
    body: Any
    id: str | None
    options: SendOptions


def packer(queue: QueueState[Any], options: SendOptions) -> Callable[[Any], bytes]:
    """Packs bodies with these options."""
    return queue.codec.packer(
        options.priority,
        options.headers,
        persistent=options.persistent,
        key=options.key,
        dependency=options.dependency,
        result=options.result,
        encode=options.encode,
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
        **_own_duplicates(message, options),
    )


def _own_duplicates(message: Message[Any], options: SendOptions) -> dict[str, Any]:
    if message.on_duplicate is None and message.max_delay is None:
        return {}
    said: str | None = message.on_duplicate
    if said is None:
        said = options.call.mode if isinstance(options.call, Resend) else "drop"
    delayed = message.delay if message.delay is not None else options.delay or None
    return duplicates(said, message.max_delay, delayed)


def duplicates(on_duplicate: object, max_delay: Duration | None, delay: Duration | None) -> dict[str, Any]:
    """Fields of `SendOptions`, from what a user passed.

    Args:
        max_delay: None: ten minutes, if that is needed.
        delay: None: there is none, or a time in its place.

    Raises:
        InvalidInput: there is no such word, `debounce` is without a delay or longer than `max_delay`, or
            `max_delay` has no use.
        InvalidDuration: `max_delay` is not a duration.
    """
    if on_duplicate not in MODES:
        raise InvalidInput(f"on_duplicate={shown(on_duplicate)}: use one of {', '.join(MODES)}")
    if on_duplicate != "debounce":
        if max_delay is not None:
            raise InvalidInput(f'max_delay is for on_duplicate="debounce", not "{on_duplicate}"')
        return {
            "raises": on_duplicate == "raise",
            "call": send if on_duplicate in {"drop", "raise"} else Resend(str(on_duplicate)),
        }
    if delay is None:
        raise InvalidInput('on_duplicate="debounce" starts the delay anew: pass delay="30s", not a time')
    most = milliseconds(MAX_DELAY if max_delay is None else max_delay, name="max_delay", minimum=1)
    if milliseconds(delay, name="delay", minimum=1) > most:
        raise InvalidInput(
            f"delay={shown(delay)} is longer than max_delay={shown(max_delay or MAX_DELAY)}, the longest "
            "wait since the first send: pass a longer one"
        )
    return {"raises": False, "call": Resend("debounce", most)}


def check_sent_as_is(options: SendOptions, where: str) -> None:
    """Check that known ids need no verb of their own, which only a send outside of a transaction has.

    Raises:
        InvalidInput: `on_duplicate` is another than drop or raise, or the task is unique.
    """
    if isinstance(options.call, Resend):
        raise InvalidInput(
            f"{where} cannot change known messages: leave out on_duplicate; a unique task takes "
            "options(id=…), or options(id=None) for a drawn one"
        )


def asks_result(queue: QueueState[Any], options: SendOptions) -> bool:
    """Whether the result of a message is kept, as far as this process knows: it asks, or its queue does."""
    return options.result or bool(queue.given.get("results"))
