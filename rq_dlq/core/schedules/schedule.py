"""Schedules: rules for when to send, their records in Redis, and their public values."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from rq_dlq.core.schedules.cron import as_fields
from rq_dlq.errors import InvalidInput
from rq_dlq.values.codec import PRIORITIES
from rq_dlq.values.durations import Duration, human, milliseconds, shown
from rq_dlq.values.failure import moment

Missed: TypeAlias = Literal["last", "all", "skip"]
"""What to do with ticks that passed while no process could send."""
SECOND, MINUTE = 1_000, 60_000
SHORTEST = SECOND  # interval
GRACE = MINUTE  # how late a tick may be sent where missed ones are skipped
MOST_BYTES = 16_384  # of a record: a call reads twenty
USUAL_ZONE = "UTC"
TIMES = range(2**42)  # milliseconds: no index has room for later ones


class Rule(msgspec.Struct, frozen=True):
    """When a schedule sends.

    Attributes:
        every: milliseconds; 0: `cron` says.
        cron: an expression of five fields, or six with seconds; empty with `every`.
        timezone: of that.
        missed: "last": the last of the missed ticks is sent, late. "all": each is. "skip": none is.
    """

    every: int = 0
    cron: str = ""
    timezone: str = USUAL_ZONE
    missed: Missed = "last"

    @classmethod
    def of(cls, cron: str | None, every: Duration | None, timezone: str, missed: Missed) -> Rule:
        """Check the arguments of a user, and make a rule.

        Raises:
            InvalidInput: there is neither a cron expression nor an interval, or both, or one is not valid.
        """
        if (cron is None) == (every is None):
            raise InvalidInput('pass either cron="0 7 * * mon-fri" or every="1h"')
        if every is not None and timezone != USUAL_ZONE:
            raise InvalidInput('an interval has no time zone: timezone="…" goes with cron="…"')
        if missed not in get_args(Missed):
            message = f"missed {shown(missed)}: choose from {', '.join(get_args(Missed))}"
            raise InvalidInput(message)
        if every is not None:
            return cls(every=milliseconds(every, name="every", minimum=SHORTEST), missed=missed)
        rule = cls(cron=as_fields(str(cron)), timezone=timezone, missed=missed)
        rule.following(0)
        return rule

    def __str__(self) -> str:
        if self.every:
            return f"every {human(self.every)}"
        return self.cron if self.timezone == USUAL_ZONE else f"{self.cron} {self.timezone}"

    def has_ticks_of(self, other: Rule) -> bool:
        """Whether the other rule is the same, except for missed ticks."""
        return (self.every, self.cron, self.timezone) == (other.every, other.cron, other.timezone)

    def following(self, instant: int) -> int:
        """The first tick after a time; both in milliseconds.

        Raises:
            InvalidInput: the expression or the time zone is not valid, or it has no tick.
        """
        if self.every:
            return instant + self.every
        for tick in self._ticks(instant):
            return tick
        raise InvalidInput(f"cron {self.cron!r} names no time in the next 50 years")

    def last_due(self, due: int, now: int) -> int:
        """The last of the ticks from `due` until now."""
        if self.every:
            return now - (now - due) % self.every
        span = MINUTE
        while True:  # looks further back each time, so that few ticks are worked out
            start = max(due - 1, now - span)
            found = deque(takewhile(now.__ge__, self._ticks(start)), maxlen=1)
            if found or start < due:
                return found[0] if found else due
            span *= 2

    def _ticks(self, instant: int) -> Iterator[int]:
        try:
            zone = UTC if self.timezone == USUAL_ZONE else ZoneInfo(self.timezone)
        except (ValueError, OSError, LookupError, TypeError):
            message = (
                f"there is no time zone {shown(self.timezone)} on this machine: use a name such as "
                "Europe/Berlin; if the machine has no time zones at all, `pip install tzdata`"
            )
            raise InvalidInput(message) from None
        start = datetime.fromtimestamp(instant / SECOND, zone)
        by_the_clock = any(field.startswith("*") for field in self.cron.split()[-5:-3])
        last = instant
        for tick in self._by_the_clock(start) if by_the_clock else self._once(start):
            at = round(tick.timestamp() * SECOND)
            if at > last:  # the hour may be the repeated one, or several times may be missing
                last = at
                yield at

    def _local(self, start: datetime) -> Iterator[datetime]:
        """The local times that the expression names, of clocks that are never changed."""
        try:
            return CronSim(self.cron, start.replace(tzinfo=None))
        except CronSimError as error:
            message = (
                f"cron {self.cron!r}: {error}. Use five fields, minute hour day month weekday, as in "
                '"0 7 * * mon-fri"; six with seconds in front'
            )
            raise InvalidInput(message) from None

    def _once(self, start: datetime) -> Iterator[datetime]:
        """One moment for each time: the first of two, or right after the change if it is missing."""
        return (_first(local, start.tzinfo or UTC) for local in self._local(start))

    def _by_the_clock(self, start: datetime) -> Iterator[datetime]:
        """Each moment at which the clocks show such a time: none, one or two."""
        zone, local, last = start.tzinfo or UTC, start.replace(tzinfo=None), start
        changed = True
        while changed:
            offset, changed = last.astimezone(zone).utcoffset() or timedelta(), False
            for tick in self._local(local):
                moment = (tick - offset).replace(tzinfo=UTC)
                if change := _change(last, moment, zone, offset):  # from there on the clocks show other times
                    last, changed = change, True
                    local = last.astimezone(zone).replace(tzinfo=None) - timedelta(seconds=1)
                    break
                last = moment
                yield moment


def _change(after: datetime, before: datetime, zone: tzinfo, offset: timedelta) -> datetime | None:
    """When the clocks of a zone are changed that are an offset ahead of UTC.

    A change that is further than a day from both moments, and is taken back between them, does not count: it
    neither repeats nor skips a time that matters.
    """
    low, day = after.astimezone(UTC), timedelta(days=1)
    for look in sorted({min(before, low + day), max(low, before - day), before}):
        if look.astimezone(zone).utcoffset() != offset:
            high = look
            while high - low > timedelta(seconds=1):
                middle = (low + (high - low) / 2).replace(microsecond=0)
                if middle.astimezone(zone).utcoffset() == offset:
                    low = middle
                else:
                    high = middle
            return high
        low = look
    return None


def _first(local: datetime, zone: tzinfo) -> datetime:
    """The first moment at which the clocks of a zone show a local time or a later one."""
    before, after = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if before <= after:  # the time exists; if twice, the first counts
        return before
    # The time is missing: the clocks are put forward between the two.
    return _change(after, before, zone, after.astimezone(zone).utcoffset() or timedelta()) or before


def _fields_of(text: bytes | msgspec.Raw) -> dict[str, Any]:
    """The fields of a JSON object, each as it is written there; none if it is damaged."""
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return {}


class Record(msgspec.Struct):
    """A schedule as Redis stores it.

    Attributes:
        ttl: of the messages, as in `values/times.py`. Version 0.1.0 refuses a record with a time.
        key, dependency: the key and the dependency of the messages; None: no key or dependency.
        declared: a task in code declares it.
        due: the next tick, milliseconds.
        last: the last tick that was sent; 0: none was.
        last_id: the id of its message.
    """

    rule: Rule
    body: msgspec.Raw
    headers: dict[str, str]
    priority: int
    ttl: int = 0
    declared: bool = False
    due: int = 0
    last: int = 0
    last_id: str = ""
    paused: bool = False
    key: str | None = None
    dependency: str | None = None

    def __post_init__(self) -> None:
        """Check numbers with which it could not be fired, or would be without end."""
        whole = self.rule.every >= 0 and self.priority in PRIORITIES and (self.ttl >= 0 or -self.ttl in TIMES)
        if not (whole and self.due in TIMES and self.last in TIMES):
            raise ValueError("a number is out of its range")

    @classmethod
    def read(cls, text: bytes) -> Record:
        """A record from Redis.

        Raises:
            InvalidInput: it is damaged, or a later version wrote it.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"its record cannot be read: {error}") from None

    def written(self, before: bytes) -> bytes:
        """The record for Redis, with the fields of the one before that a later version added."""
        others = _fields_of(before)
        rule = _fields_of(others.get("rule", b"")) | msgspec.structs.asdict(self.rule)
        return msgspec.json.encode(others | msgspec.structs.asdict(self) | {"rule": rule})

    @property
    def at(self) -> int | None:
        """When to fire; None: it is paused."""
        return None if self.paused else self.due

    def firing(self, now: int) -> tuple[int | None, int]:
        """The tick to send now (None: it is skipped), and the one after it."""
        tick = self.due if self.rule.missed == "all" else self.rule.last_due(self.due, now)
        skipped = self.rule.missed == "skip" and now - tick > GRACE
        return None if skipped else tick, self.rule.following(tick)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of a queue.

    Attributes:
        queue: the queue's name.
        name: its name.
        rule: when it sends, such as "every 1h" or "0 7 * * mon-fri Europe/Berlin".
        missed: what to do with missed ticks.
        next_at: the next tick; None: it is paused.
        last_at: the last sent tick; None: none was sent.
        last_id: the id of its message.
        paused: it sends nothing until it is resumed.
        declared: a task in code declares it.
        body: the body of its messages.
        headers: the headers of its messages.

    Examples:
        >>> schedule = orders.schedule("nightly", {"total": 0}, cron="0 3 * * *")
        >>> schedule.name, schedule.rule, schedule.missed, schedule.next_at.hour
        ('nightly', '0 3 * * *', 'last', 3)
    """

    queue: str
    name: str
    rule: str
    missed: Missed
    next_at: datetime | None
    last_at: datetime | None
    last_id: str | None
    paused: bool
    declared: bool
    body: Any
    headers: Mapping[str, str]

    @classmethod
    def of(cls, queue: str, name: str, record: Record) -> Schedule:
        """Make it from a record."""
        return cls(
            queue,
            name,
            rule=str(record.rule),
            missed=record.rule.missed,
            next_at=None if record.paused else moment(record.due),
            last_at=moment(record.last) if record.last else None,
            last_id=record.last_id or None,
            paused=record.paused,
            declared=record.declared,
            body=msgspec.json.decode(record.body),
            headers=record.headers,
        )


def text_of(tick: int) -> str:
    """A tick as text: "2026-11-23T07:00:00Z"."""
    at = datetime.fromtimestamp(tick / SECOND, UTC)
    return at.isoformat(timespec="milliseconds" if tick % SECOND else "seconds").replace("+00:00", "Z")
