"""When a message is due and when it expires: milliseconds from its send; below 0, a time.

A time is the negative of its milliseconds since 1970: so the scripts, lists of staged messages, rows of an
outbox and records of schedules have one number for both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from rq_dlq.errors import InvalidDuration, InvalidInput
from rq_dlq.values.durations import milliseconds, shown

if TYPE_CHECKING:
    from rq_dlq.values.durations import Duration

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 2**42 - 1  # milliseconds: no index has room for later times
_MILLISECOND: Final = timedelta(milliseconds=1)


def due_of(delay: Duration | None, at: datetime | None) -> int:
    """When a message is due: 0: at once; above 0: that long after its send; below 0: at that time.

    Raises:
        InvalidDuration: the delay is not a duration, or is below 0.
        InvalidInput: the time has no zone, or is too late, or there is a delay, too.
    """
    if at is None:
        return 0 if delay is None else _span(delay, "delay", "at", 0)
    _only(delay, "delay", "at")
    return -max(1, -((_EPOCH - _checked(at, "at")) // _MILLISECOND))  # rounded up: it is never early


def end_of(ttl: Duration | None, expires_at: datetime | None) -> int:
    """When a message expires: 0: never; above 0: that long after its send; below 0: at that time.

    Raises:
        InvalidDuration: the time to live is not a duration, or is below one millisecond.
        InvalidInput: the time has no zone, or is too late, or there is a time to live, too.
    """
    if expires_at is None:
        return 0 if ttl is None else _span(ttl, "ttl", "expires_at", 1)
    _only(ttl, "ttl", "expires_at")
    return -max(1, (_checked(expires_at, "expires_at") - _EPOCH) // _MILLISECOND)


def _span(value: Duration, name: str, of_times: str, minimum: int) -> int:
    if isinstance(cast("object", value), datetime):
        raise InvalidDuration(f"{name}: {value} is a time, not a duration. Pass it as {of_times}=…")
    return milliseconds(value, name=name, minimum=minimum)


def _only(span: object, name: str, of_times: str) -> None:
    if span is not None:
        raise InvalidInput(f"pass either {name}, a duration, or {of_times}, a time")


def _checked(time: object, name: str) -> datetime:
    if not isinstance(time, datetime):
        raise InvalidInput(
            f"{name}: {shown(time)} is not a time. Pass a datetime with a time zone, such as "
            "datetime.now(UTC) + timedelta(hours=1)"
        )
    if time.utcoffset() is None:
        raise InvalidInput(
            f"{name}: {time} has no time zone, so it means a different moment on each machine. Pass "
            f"{name}=time.astimezone() if it is this machine's local time, or "
            f"{name}=time.replace(tzinfo=UTC) if it is UTC"
        )
    if (time - _EPOCH) // _MILLISECOND >= _LATEST:
        raise InvalidInput(f"{name}: {time} is out of range. Pass a time before the year 2109")
    return time
