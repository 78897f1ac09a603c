"""Simulates many messages that fail together, without I/O; the same seed gives the same result.

The model is small on purpose. All messages fail at time 0, because a service is down until the outage ends.
Each is redelivered by the policy. A delivery takes no time. It fails while the service is down, and
afterwards if the service has no capacity left in that second. There are always enough workers.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import Duration, human, milliseconds, shown
from rq_dlq.values.readable import many

if TYPE_CHECKING:
    from rq_dlq.policy.arithmetic import Arithmetic

SLOT: Final = 100
"""Redeliveries within this time count as one crowd; milliseconds."""
MOST_DELIVERIES: Final = 2_000_000
"""This many take a few seconds. Without a limit and waits, a simulation would never end."""
BARS: Final = 24
WIDEST: Final = 50
STEPS: Final = (100, 200, 500, *(1_000 * s for s in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600)))
"""The possible lengths of a bar's time step, milliseconds; beyond an hour, whole hours."""


class RedeliveryPlan(NamedTuple):
    """The plan of a policy: the waits between redeliveries, and their limit; None: no limit."""

    arithmetic: Arithmetic
    limit: int | None

    def wait(self, n: int, draw: random.Random, previous: int | None) -> int:
        """A random wait, in milliseconds."""
        return self.arithmetic.wait(n, draw.uniform(-1, 1), previous)

    def spent(self, failures: int) -> bool:
        """Whether a message with this many failures is dead."""
        return self.limit is not None and failures > self.limit


class Bar(NamedTuple):
    """The redeliveries within one time step, which begins at `start` (seconds since the failure)."""

    start: float
    failed: int
    done: int


class Crowd(NamedTuple):
    """The most redeliveries in 100 ms, their fraction of all messages, and seconds since the failure."""

    size: int
    share: float
    at: float


class Quantiles(NamedTuple):
    """The seconds after which 1 %, half and 99 % of the messages are dead."""

    p1: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """The simulated outcome of messages that failed together. `str()` is a table and a picture.

    Attributes:
        messages: the number of messages; in the end each is done or dead.
        outage: the length of the outage, seconds.
        rate: how many deliveries a second could succeed afterwards; None: any number.
        drained: seconds after the outage until the last message was done or dead; 0: none was left.
        done: how many messages succeeded.
        dead: how many messages died.
        deliveries: the number of deliveries, including the first of each message.
        wasted: the number of failed deliveries, including the first of each message.
        crowd: the biggest crowd; None: there was no redelivery.
        crowd_after: the biggest crowd after the outage; None: there was no redelivery after it.
        dead_after: the time to the dead-letter queue if the outage never ended; None: there is no limit on
            redeliveries, or it is above 2,000,000.
        step: the length of a row's time step, seconds.
        rows: the redeliveries over time, ready for JSON.
    """

    messages: int
    outage: float
    rate: float | None
    drained: float
    done: int
    dead: int
    deliveries: int
    wasted: int
    crowd: Crowd | None
    crowd_after: Crowd | None
    dead_after: Quantiles | None
    step: float
    rows: tuple[Bar, ...]

    @classmethod
    def of(
        cls, plan: RedeliveryPlan, messages: int, outage: Duration, rate: float | None, seed: int
    ) -> Simulation:
        """Simulate a policy; the other arguments are as in `RedeliveryPolicy.simulate`."""
        if isinstance(messages, bool) or not isinstance(messages, int) or messages < 1:
            raise InvalidInput(f"messages is {shown(messages)}. Pass a whole number, 1 or more")
        if rate is not None and (
            isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf
        ):
            raise InvalidInput(f"rate is {shown(rate)}. Pass a number above 0, or leave it out for no limit")
        _bound(messages)
        until, draw = milliseconds(outage, name="outage"), random.Random(seed)  # noqa: S311 - a simulation
        seen = _play(plan, messages, until, rate, draw)
        step, rows = _bars(seen.failures, seen.successes)
        times = seen.failures + seen.successes
        return cls(
            messages=messages,
            outage=until / 1000,
            rate=rate,
            drained=max(0, seen.end - until) / 1000,
            done=len(seen.successes),
            dead=seen.dead,
            deliveries=messages + len(times),
            wasted=messages + len(seen.failures),
            crowd=_crowd(times, messages),
            crowd_after=_crowd([ms for ms in times if ms >= until], messages),
            dead_after=_dead_after(plan, messages, draw),
            step=step / 1000,
            rows=rows,
        )

    def __str__(self) -> str:
        able = "anything" if self.rate is None else f"{self.rate:g} messages a second"
        fail = "fails" if self.messages == 1 else "fail together"
        drained = f"{_text(self.drained)} after the outage" if self.done else "nothing was left to do"
        lines = [
            f"{many(self.messages, 'message')} {fail}, at 0s; after {_text(self.outage)} {able} can be done",
            "",
            f"drained           {drained}",
            f"deliveries        {self.deliveries:,}, of which {self.wasted:,} failed",
            f"dead-lettered     {self.dead:,}",
            f"biggest crowd     {_described(self.crowd)}",
            f"after the outage  {_described(self.crowd_after)}",
            f"if it stays down  {self._ending()}",
        ]
        return "\n".join((*lines, *self._picture()))

    def _ending(self) -> str:
        if self.dead_after is None:
            return f"not dead-lettered within {MOST_DELIVERIES:,} redeliveries"
        p1, p50, p99 = map(_text, self.dead_after)
        return f"dead-lettered after {p50} (p1 {p1}, p99 {p99})"

    def _picture(self) -> Iterator[str]:
        """A line for each row, with a bar whose length shows its number of redeliveries."""
        if not self.rows:
            return
        highest = max(row.failed + row.done for row in self.rows)
        width = max(len(_text(row.start)) for row in self.rows)
        yield ""
        yield f"redeliveries in {_text(self.step)} each: . failed, # done"
        for row in self.rows:
            count = row.failed + row.done
            length = math.ceil(count * WIDEST / highest) if highest else 0
            done = round(length * row.done / count) if count else 0
            bar = "." * (length - done) + "#" * done
            up = "  < up again" if row.start <= self.outage < row.start + self.step else ""
            yield f"{_text(row.start):>{width}}  {bar}{' ' * bool(bar)}{count:,}{up}"


class _SimulatedTimes(NamedTuple):
    """The times of failed and successful redeliveries, and the end of the last message; milliseconds."""

    failures: list[int]
    successes: list[int]
    dead: int
    end: int


def _play(
    plan: RedeliveryPlan, messages: int, outage: int, rate: float | None, draw: random.Random
) -> _SimulatedTimes:
    """Deliver in order of time until every message is done or dead."""
    failures, successes, dead, end = list[int](), list[int](), 0, 0
    allowance = _Allowance(rate, outage)
    if plan.spent(1):
        return _SimulatedTimes(failures, successes, messages, end)
    firsts = (plan.wait(1, draw, None) for _ in range(messages))
    coming = [(wait, number, 1, wait) for number, wait in enumerate(firsts)]  # time, message, failures, wait
    heapify(coming)
    while coming:
        end, number, charged, wait = heappop(coming)
        if end >= outage and allowance.covers(end):
            successes.append(end)
            continue
        failures.append(end)
        _bound(len(failures) + len(successes))
        if plan.spent(charged + 1):
            dead += 1
            continue
        wait = plan.wait(charged + 1, draw, wait)
        heappush(coming, (end + wait, number, charged + 1, wait))
    return _SimulatedTimes(failures, successes, dead, end)


class _Allowance:
    """The capacity after the outage: a token bucket for one second, at least one token, full at first."""

    def __init__(self, rate: float | None, now: int) -> None:
        self._rate, self._then = rate, now
        self._left = self._most = max(rate or 0, 1.0)

    def covers(self, now: int) -> bool:
        """Take a token, if there is one."""
        if self._rate is None:
            return True
        self._left = min(self._most, self._left + (now - self._then) * self._rate / 1000)
        self._then = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _dead_after(plan: RedeliveryPlan, messages: int, draw: random.Random) -> Quantiles | None:
    """The times at which messages that always fail are dead."""
    limit = plan.limit
    if limit is None or limit > MOST_DELIVERIES:
        return None
    sample = min(messages, MOST_DELIVERIES // max(limit, 1))  # sums of many waits differ little
    ends: list[int] = []
    for _ in range(sample):
        end, wait = 0, None
        for n in range(1, limit + 1):
            wait = plan.wait(n, draw, wait)
            end += wait
        ends.append(end)
    ends.sort()
    return Quantiles(*(ends[round(part * (sample - 1))] / 1000 for part in (0.01, 0.5, 0.99)))


def _bound(deliveries: int) -> None:
    if deliveries > MOST_DELIVERIES:
        raise InvalidInput(
            f"more than {MOST_DELIVERIES:,} deliveries are too many to simulate. Pass fewer messages, a "
            "shorter outage, a higher rate, or a policy that waits longer"
        )


def _bars(failures: Iterable[int], successes: Iterable[int]) -> tuple[int, tuple[Bar, ...]]:
    """The step in milliseconds, and the rows."""
    end = max((0, *failures, *successes))
    hours = 3_600_000 * (end // (BARS * 3_600_000) + 1)
    step = next((step for step in STEPS if end // step < BARS), hours)
    failed, done = Counter(ms // step for ms in failures), Counter(ms // step for ms in successes)
    if not failed and not done:
        return step, ()
    return step, tuple(Bar(k * step / 1000, failed[k], done[k]) for k in range(end // step + 1))


def _crowd(times: Iterable[int], messages: int) -> Crowd | None:
    """The first of the fullest slots."""
    slots = Counter(ms // SLOT for ms in times)
    if not slots:
        return None
    first, size = max(slots.items(), key=lambda slot: (slot[1], -slot[0]))
    return Crowd(size, size / messages, first * SLOT / 1000)


def _described(crowd: Crowd | None) -> str:
    if crowd is None:
        return "no redelivery"
    share = f"{crowd.share:.1%} of the messages"
    return f"{many(crowd.size, 'redelivery', 'redeliveries')} in {SLOT} ms ({share}), at {_text(crowd.at)}"


def _text(seconds: float) -> str:
    """A time rounded for display: to a tenth of a second, beyond a minute to a second."""
    ms = round(seconds * 1000)
    grain = 1_000 if ms >= 60_000 else 100  # noqa: PLR2004 - a minute
    return human(round(ms / grain) * grain)
