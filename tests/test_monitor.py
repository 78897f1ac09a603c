"""The rates of queues that are read again and again, and when to read next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rq_dlq.core.looking.monitor import ALL, LONGEST, SHARE, WINDOW, Monitor, Rates
from rq_dlq.core.looking.overview import Overview, QueueOverview
from rq_dlq.errors import BrokerUnavailable
from rq_dlq.values.counts import QueueStats
from tests.tables import each_row

AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
STATS = QueueStats("orders", 0, 0, 0, 0, 0, None, None, {})


def seen(seconds: float, **queues: dict[str, int]) -> Overview:
    """All queues at a time, each with its totals."""
    found = [replace(STATS, name=name, totals=totals) for name, totals in queues.items()]
    return Overview(AT + timedelta(seconds=seconds), [QueueOverview(one, [], [], AT, one) for one in found])


def test_rates_are_those_of_the_last_minute() -> None:
    monitor = Monitor()
    for second in range(0, 301, 10):  # twice as many a second from 200 s on
        sent = second if second < 200 else 2 * second - 200
        monitor.add(seen(second, orders={"sent": sent, "nacked": sent, "lapsed": sent, "poison": second}), 0)
        assert monitor.seconds == min(second, WINDOW)
    assert monitor.rates("orders") == Rates(sent=2, failed=4, died=1)
    assert monitor.rates(ALL) == Rates(sent=2, failed=4, died=1)
    assert monitor.rates("nope") == Rates()


def test_readings_that_are_rare() -> None:
    monitor = Monitor()
    for hour in range(3):
        monitor.add(seen(3600 * hour, orders={"acked": 36 * hour**2}), 0)
    assert (monitor.seconds, monitor.rates("orders").acked) == (3600, 0.03)


def test_what_has_stopped_leaves_nothing() -> None:
    """Not a tiny rest: a queue of which no message died for a minute is in no trouble."""
    monitor = Monitor()
    for second in range(200):
        monitor.add(seen(second, orders={"exhausted": min(7 * second, 350)}), 0)
        assert (monitor.rates("orders").died > 0) == (0 < second < 50 + WINDOW)


def test_a_counter_that_was_reset_and_a_queue_that_is_new() -> None:
    monitor = Monitor()
    monitor.add(seen(0, orders={"sent": 500}), 0)
    assert (monitor.seconds, monitor.rates("orders")) == (0, Rates())
    monitor.add(seen(10, orders={"sent": 510}, new={"sent": 70}), 0)
    assert (monitor.rates("orders").sent, monitor.rates("new").sent) == (1, 0)
    monitor.add(seen(20, orders={"sent": 0}, new={"sent": 90}), 0)
    assert (monitor.rates("orders").sent, monitor.rates("new").sent) == (0.5, 1)
    assert monitor.rates(ALL).sent == 1.5


def test_a_clock_that_is_set_back_costs_one_reading() -> None:
    monitor = Monitor(keep=900)
    for second, sent in ((0, 0), (10, 10), (-3600, 20), (-3590, 30)):
        monitor.add(seen(second, orders={"sent": sent}), 0)
    assert (monitor.seconds, monitor.rates("orders").sent) == (20, 1)


def test_points_for_charts() -> None:
    monitor = Monitor(keep=20)
    for second in (0, 10, 20, 30):
        monitor.add(seen(second, orders={"sent": 25 * second}, idle={}), 0)
    start = AT.timestamp()
    assert monitor.last("orders") == [start + 30, 25, 0, 0, 0, 0, 0, 0]
    times, sent, *_ = monitor.columns(ALL)
    assert (times, sent) == ([start + 10, start + 20, start + 30], [25, 25, 25])
    assert {*map(sum, monitor.columns("idle")[1:])} == {0}


@each_row("every, took, pause", [(1, 0.1, 1), (1, 0.5, SHARE * 0.5), (1, 60, LONGEST), (30, 60, 30)])
def test_a_slow_redis_is_read_less_often(every: float, took: float, pause: float) -> None:
    monitor = Monitor()
    monitor.add(seen(0), took)
    assert monitor.pause(every) == pause


def test_a_failure_is_kept_until_a_reading_succeeds() -> None:
    monitor, away = Monitor(), BrokerUnavailable("away")
    monitor.add(seen(0, orders={"sent": 0}), 2)
    monitor.fail(away)
    assert (monitor.failure, monitor.pause(1)) == (away, 1)
    assert monitor.overview is not None  # what is known is still shown
    monitor.add(seen(30, orders={"sent": 30}), 0)
    assert (monitor.failure, monitor.rates("orders").sent) == (None, 1)
