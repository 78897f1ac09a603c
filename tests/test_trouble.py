"""What is judged as wrong with a queue, and since when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from rq_dlq.core.looking.overview import SLOW, QueueOverview
from rq_dlq.core.looking.trouble import OLD, OVERDUE, UNTAKEN, troubles
from rq_dlq.core.redrive.record import Asked, Redrive, RedriveCounts
from rq_dlq.values.counts import ErrorGroup, QueueStats
from rq_dlq.values.dependency import DependencyStats
from tests.tables import each_row

AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
STATS = QueueStats("orders", 0, 0, 0, 0, 0, None, None, {})
GROUP = ErrorGroup("abc", "exhausted", "KeyError: 'sku'", 9, AT - timedelta(hours=2), AT, "1", last_hour=4)
OVER = replace(GROUP, calm=True, error_class="ConnectionError")
DOWN = DependencyStats(
    "payments", "orders", open=True, condition="down", since=AT - timedelta(minutes=5), waiting=9
)
FOREVER = "paused until it is resumed, 3 waiting"
PAUSED = replace(DOWN, condition="paused", paused=True)
BACK = DependencyStats(
    "payments", "orders", condition="coming back", ended=AT - timedelta(minutes=2), waiting=9
)
ASKED = Asked("dead", "all", 0, 0, 0.9, "", "", 0, "")
REDRIVE = Redrive("56ad", "orders", ASKED, "paused", "success", RedriveCounts(10, 5, acked=1, died=4))


def queue(name: str = "orders", **found: Any) -> QueueOverview:
    """A queue with these counts, groups and redrives."""
    counts = {key: found.pop(key) for key in [*found] if hasattr(STATS, key)}
    stats = replace(STATS, name=name, **counts)
    return QueueOverview(stats, **({"groups": [], "redrives": []} | found), grouped_at=AT, grouped=stats)


@each_row(
    "found, died, level, what, ago",
    [
        ({"ready": 3, "oldest": UNTAKEN}, 0, None, None, None),
        ({"ready": 3, "oldest": 31}, 0, "bad", "3 ready, the oldest for 31s, and no consumer takes them", 31),
        ({"ready": 3, "leased": 1, "oldest": SLOW}, 0, None, None, None),
        ({"ready": 3, "leased": 1, "oldest": 61}, 0, "warn", "3 ready, the oldest for 1m1s", 61),
        ({"ready": 3, "leased": 1, "oldest": 61, "paused": True}, 0, "warn", FOREVER, None),
        ({"ready": 3, "leased": 1, "oldest": OLD}, 0, "warn", "3 ready, the oldest for 5m", OLD),
        ({"ready": 3, "leased": 1, "oldest": 301}, 0, "bad", "3 ready, the oldest for 5m1s", 301),
        ({"ready": 3, "oldest": 301, "paused": True}, 0, "warn", FOREVER, None),
        (
            {"ready": 3, "oldest": 301, "paused": True, "until": AT + timedelta(hours=1)},
            0,
            "warn",
            "paused until 13:00 UTC, 3 waiting",
            None,
        ),
        ({"paused": True}, 0, None, None, None),
        ({"leased": 1, "overdue": OVERDUE}, 0, None, None, None),
        ({"leased": 1, "overdue": 60}, 0, "bad", "maintenance is 1m late", 60),
        ({"orphaned": 2}, 0, "bad", "2 messages in no index", None),
        ({"schedules_overdue": OVERDUE}, 0, None, None, None),
        ({"schedules_overdue": 60}, 0, "bad", "a schedule is 1m late", 60),
        ({"dead": 5}, 0, None, None, None),
        ({"dead": 5}, 0.05, "bad", "messages die", None),
        ({"groups": [GROUP]}, 0, "calm", "9 dead letters wait for a decision", 7200),
        ({"groups": [replace(GROUP, count=1)]}, 0, "calm", "1 dead letter waits for a decision", 7200),
        ({"groups": [GROUP], "redrives": [replace(REDRIVE, state="running")]}, 0, None, None, None),
        (
            {"groups": [GROUP, replace(GROUP, muted=True)]},
            0,
            "calm",
            "9 dead letters wait for a decision",
            7200,
        ),
        ({"groups": [replace(GROUP, muted=True)]}, 0, None, None, None),
        (
            {"groups": [OVER, replace(OVER, count=2_067, error_class="requests.exceptions.Timeout")]},
            0,
            "calm",
            "2,076 dead letters of an outage that is over wait for a decision",
            7200,
        ),
        ({"groups": [OVER, GROUP]}, 0, "calm", "18 dead letters wait for a decision", 7200),
        (
            {"groups": [replace(GROUP, new=True, last_hour=0)]},
            0,
            "calm",
            "9 dead letters wait for a decision",
            7200,
        ),
        ({"groups": [replace(GROUP, new=True)]}, 0, "warn", "new: KeyError: 'sku'", 7200),
        ({"groups": [replace(GROUP, new=True)]}, 0.05, "bad", "new: KeyError: 'sku'", 7200),
        (
            {"groups": [replace(GROUP, new=True, calm=True)]},
            0,
            "calm",
            "9 dead letters wait for a decision",
            7200,
        ),
        ({"dependencies": [DependencyStats("payments", "orders")]}, 0, None, None, None),
        ({"dependencies": [DOWN]}, 0, "bad", "payments down since 11:55 UTC, 9 wait", 300),
        ({"dependencies": [PAUSED]}, 0, "warn", "payments paused until it is resumed, 9 wait", 300),
        ({"dependencies": [BACK]}, 0, "calm", "payments back at 11:58 UTC, 9 come back", 120),
        ({"groups": [replace(GROUP, growing=True, muted=True)]}, 0.05, None, None, None),
        ({"groups": [replace(GROUP, growing=True)]}, 0, "bad", "growing: KeyError: 'sku'", None),
        ({"groups": [replace(GROUP, regressed=True)]}, 0, "bad", "regressed: KeyError: 'sku'", 7200),
        ({"redrives": [REDRIVE]}, 0, "warn", "redrive 56ad is paused", None),
        ({"redrives": [replace(REDRIVE, state="running")]}, 0, None, None, None),
    ],
)
def test_what_is_trouble(
    found: dict[str, Any], died: float, level: str | None, what: str | None, ago: float | None
) -> None:
    told = troubles([queue(**found)], AT, {"orders": died})
    assert [(one.level, one.what) for one in told] == ([(level, what)] if level else [])
    for one in told:
        assert one.since == (None if ago is None else AT - timedelta(seconds=ago))
        assert one.detail


def test_the_worst_comes_first() -> None:
    growing = replace(GROUP, growing=True)
    seen = [
        queue("paused", ready=9, paused=True),
        queue("calm", groups=[replace(GROUP, new=True, calm=True)], dependencies=[BACK]),
        queue("down", dependencies=[DOWN]),
        queue("old", ready=1, oldest=99),
        queue("older", ready=1, oldest=999),
        queue("late", overdue=40),
        queue("few", groups=[replace(GROUP, new=True), growing]),
        queue("many", groups=[replace(growing, last_hour=5, fingerprint="def")]),
    ]
    told = troubles(seen, AT)
    assert [one.queue for one in told] == [
        "down", "many", "few", "late", "older", "old", "paused", "calm", "calm"
    ]  # fmt: skip
    assert [one.subject for one in told] == ["payments", "def", "abc", "", "", "", "", "payments", ""]
    assert told[2].detail == "4 dead letters within the last hour, 9 in all, and 1 other group like it"
