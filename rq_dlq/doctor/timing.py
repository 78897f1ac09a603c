"""The server's clock, and the time of a round trip."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rq_dlq._calls import Command
from rq_dlq.doctor.check import Check, untold
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._work import Steps

ROUNDS = 20
SLOW = 0.010  # seconds of a round trip
APART = 1.0  # seconds between two clocks


def answers() -> Steps[None]:
    """Check that the server answers at all."""
    yield _plain(b"PING")


def clock() -> Steps[Check]:
    """Whether the server's clock agrees with this machine's, within the uncertainty of the round trip."""
    begin = time.monotonic()
    try:
        seconds, micros = yield _plain(b"TIME")
    except BrokerRefused:
        return untold("clock", "TIME")
    half = (time.monotonic() - begin) / 2
    local = datetime.now(UTC).timestamp()  # noqa: TID251 - the two clocks are compared
    apart = int(seconds) + int(micros) / 1e6 + half - local
    found = f"the server's clock is {abs(apart):.3f} s {'ahead of' if apart > 0 else 'behind'} this machine's"
    if abs(apart) - half < APART:
        return Check("clock", "ok", found)
    advice = "queues use the server's clock alone, so they are right; correct the wrong clock (NTP) anyway"
    return Check("clock", "warn", found, advice)


def round_trip() -> Steps[Check]:
    """How long the server takes to answer."""
    spans: list[float] = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        yield _plain(b"PING")
        spans.append(time.monotonic() - begin)
    median = statistics.median(spans)
    found = f"{median * 1000:.2f} ms (median of {ROUNDS}), {max(spans) * 1000:.2f} ms at worst"
    if median < SLOW:
        return Check("round trip", "ok", found)
    advice = "claim and ack in batches, raise concurrency, or move the workers closer to the server"
    return Check("round trip", "warn", found, advice)


def _plain(*parts: bytes) -> Command[Any]:
    return Command(parts)
