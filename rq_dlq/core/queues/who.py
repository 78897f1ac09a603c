"""Who asks for something that the audit keeps."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.core.queues import calls
from rq_dlq.errors import BrokerRefused, InvalidInput
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.durations import shown

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps

MOST_NAME = 200  # characters of who asks


def who(queue: QueueState[Any], by: str | None) -> str:
    """Who asks, as JSON; None: this process.

    Raises:
        InvalidInput: this is no name.
    """
    if by is None:
        return queue.consumer
    with suppress(UnicodeEncodeError):  # a lone surrogate, as of a command line that is not UTF-8
        if isinstance(by, str) and 0 < len(by) <= MOST_NAME:
            return msgspec.json.encode(by).decode()
    raise InvalidInput(f"by {shown(by)}: pass a name, at most {MOST_NAME} characters")


def whoami() -> Steps[str]:
    """The Redis user; empty where the server does not tell."""
    try:
        return (yield calls.whoami())  # type: ignore[no-any-return]
    except BrokerRefused:
        return ""


def name_of(who: str) -> str:
    """A name that is stored as JSON."""
    try:
        name: Any = msgspec.json.decode(who or '""')
    except NO_JSON:
        return who
    return str(name)
