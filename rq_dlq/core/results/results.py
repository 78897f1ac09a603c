"""Results of messages: as written by an ack, and as returned to a caller."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from rq_dlq.core.results import calls
from rq_dlq.core.steps.replies import Word
from rq_dlq.errors import InvalidMessage, MessageTooLarge, ResultError, ResultUnavailable
from rq_dlq.values import record
from rq_dlq.values.codec import DEFAULT_PRIORITY, NO_HEADERS, NO_JSON, Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.core.queues.queue import QueueName
    from rq_dlq.core.results.calls import Found
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.errors import End
    from rq_dlq.values.leased import Leased

MOST: Final = 65_536  # bytes of one result
_state: Final = attrgetter("_row.state")
_ANY: Final[Codec[Any]] = Codec(Any, MOST)
_PACK: Final = _ANY.packer(DEFAULT_PRIORITY, NO_HEADERS)  # a body, with flags that show whether it is JSON


def packed(value: Any) -> bytes:
    """The stored form of a result.

    Raises:
        InvalidMessage: it cannot be encoded, or is larger than 64 kB.
    """
    try:
        return _PACK(value)
    except MessageTooLarge:
        message = f"a result has at most {MOST:,} bytes: return a reference to the data"
        raise MessageTooLarge(message) from None
    except InvalidMessage as error:
        raise InvalidMessage(f"the result: {error}") from None


def results_of(
    deliveries: Sequence[Leased[Any]],
    refused: Callable[[Leased[Any], InvalidMessage], None] | None = None,
) -> dict[str, bytes]:
    """The results of messages that are about to be acked, if their results were requested, by id.

    Args:
        refused: called with a result that cannot be stored; its message is acked without it.

    Raises:
        InvalidMessage: one cannot be stored, and there is no `refused`.
    """
    results: dict[str, bytes] = {}
    if b" result=" not in b"".join(map(_state, deliveries)):  # without Python code for each
        return results
    for one in deliveries:
        if one._wants_result:  # noqa: SLF001 - no part of what users see, like the next
            try:
                results[one.id] = packed(one._returned)  # noqa: SLF001
            except InvalidMessage as error:
                if refused is None:
                    raise
                refused(one, error)
    return results


def find(queue: QueueName, meant: calls.Meant) -> Steps[Found]:
    """The end of a message."""
    (found,) = yield calls.result(queue.keys, [meant])
    return cast("Found", found)


def value_of(queue: QueueName, message_id: str, found: Found, codec: Codec[Any] | None = None) -> Any:
    """The result.

    Args:
        codec: the codec of its type; None: any JSON value, or bytes.

    Raises:
        ResultError: the message ended without one.
        ResultUnavailable: there is no result yet, or no longer.
    """
    what = f"message {message_id} of {queue.name!r}"
    if isinstance(found, Word):
        if found is Word.PENDING:
            raise ResultUnavailable(f"{what} is not done yet: pass wait=…, or a longer one", "not done")
        if found is Word.UNASKED:
            raise ResultUnavailable(
                f"{what} was sent without result=True: it is there, and has none", "nobody asked"
            )
        raise ResultUnavailable(
            f"{what} has no result here: it was never sent, or without result=True, or its result is no "
            "longer kept (`results` of the queue; a later message with the same id)"
        )
    word, rest = found.word, found.rest
    if word == "unkept":
        message = (
            f"the result of {what} could not be kept: the memory of the server, or `results_bytes`, is full"
        )
        raise ResultUnavailable(message)
    if word == "acked":
        if not rest:
            raise ResultUnavailable(
                f"{what} was acked without a result: by a session or Spark, or its handler returned what is "
                "no result, which the log of the worker says"
            )
        return (codec or _ANY).decode(rest[1:], raw=bool(rest[0] & record.BYTES))
    reason, _, cause = rest.partition(b"\t")
    text = _text_of(cause)
    why = f": {text}" if text else ""
    message = f"{what} ended without a result, {word}{why}"
    raise ResultError(message, cast("End", word), reason.decode(), text, found.birth or None)


def _text_of(cause: bytes) -> str:
    """An error as its class and its text; empty: there was none."""
    with suppress(*NO_JSON):
        facts = msgspec.json.decode(cause, type=dict[str, Any])
        return ": ".join(str(facts[name]) for name in ("type", "message") if facts.get(name))
    return ""
