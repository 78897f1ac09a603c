"""What a claim that finds nothing replies: when the next event is due, to one client of those that wait."""

from __future__ import annotations

from typing import Any

from rq_dlq import PerKey
from rq_dlq._keys import QueueKeys
from rq_dlq.core.steps.replies import Word
from tests.conftest import Clock
from tests.model.driver import Driver
from tests.tables import each_row_afresh

KEYS = QueueKeys("rq", "a")
PATIENCE, NEVER = 60_000, Word.NO_EVENT
GATED, PAUSED = {"gated": "special"}, {"paused": 1}


async def claimed(
    broker: Any,
    raw: Any,
    clock: Clock,
    events: dict[str, list[float]],
    *,
    alarmed: bool = False,
    **given: Any,
) -> int | Word:
    """The reply of a claim; `events`: milliseconds from now, by their index; given: settings."""
    paced = "slots" in events and given.pop("paced", True)
    await broker.queue("a", per_key=PerKey(rate="1/h") if paced else None).open()
    if given:
        raw.hset(KEYS["settings"], mapping=given)
    for index, times in events.items():
        for n, at in enumerate(times):
            raw.zadd(KEYS[index], {f"{n}": clock.now + at})
    driver = Driver(raw, keys=KEYS)
    reply = driver.run(driver.claim_call("T", 1, patience=PATIENCE, alarmed=alarmed))
    raw.delete(KEYS["slots"], *(KEYS[index] for index in events))
    return reply.wait


@each_row_afresh(
    "events, given, wait",
    [
        ({}, {}, NEVER),
        *[({index: [300, 400]}, {}, 300) for index in ("scheduled", "leases", "expiring")],
        *[({index: [100], "leases": [200]}, {}, 100) for index in ("scheduled", "expiring")],
        ({"scheduled": [300], "leases": [200], "expiring": [250]}, {}, 200),
        *[({"scheduled": [1]}, {}, 1), ({"scheduled": [PATIENCE - 1]}, {}, PATIENCE - 1)],
        ({"scheduled": [PATIENCE + 1]}, {}, NEVER),
        *[({"gates": [100, 150]}, GATED, 100), ({"gates": [100]}, {}, NEVER)],
        ({"gates": [-50, 150]}, {**GATED, **PAUSED}, 150),
        *[({"gates": [100], "leases": [at]}, GATED, min(at, 100)) for at in (70, 700)],
        *[({"leases": [700]}, GATED, 700), ({"gates": [-50]}, {**GATED, **PAUSED}, NEVER)],
        *[({"slots": [50.25, 60], **more}, {}, 51) for more in ({}, {"leases": [70]})],
        ({"slots": [50, 60]}, {}, 50),
        *[({"slots": [at]}, given, NEVER) for at in (50, -50) for given in (PAUSED, {"paced": False})],
        *[({"slots": [50], "leases": [at]}, {}, min(at, 50)) for at in (40, 60)],
        ({"slots": [], "leases": [70]}, {}, 70),
    ],
)  # fmt: skip
async def test_the_next_event_is_the_first_of_all(
    *,
    events: dict[str, list[float]],
    given: dict[str, Any],
    wait: int | Word,
    broker: Any,
    raw: Any,
    clock: Clock,
) -> None:
    assert await claimed(broker, raw, clock, events, **given) == wait
    if isinstance(wait, Word):
        assert not raw.exists(KEYS["alarm"])
    else:
        assert float(raw.get(KEYS["alarm"])) == clock.now + wait
        assert raw.pttl(KEYS["alarm"]) > 0


@each_row_afresh("more, wait", [(20, 20), (80, 50)])
async def test_the_end_of_a_pause_is_an_event(
    more: int, wait: int | Word, broker: Any, raw: Any, clock: Clock
) -> None:
    given: dict[str, Any] = {**PAUSED, "paused_until": clock.now + more}
    assert await claimed(broker, raw, clock, {"leases": [50]}, **given) == wait


@each_row_afresh(
    "taken, alarmed, wait",
    [
        *[(-1, False, 50), (1, False, NEVER), (50, False, NEVER), (51, False, 50)],
        *[(1, True, 50), (50, True, 50)],
    ],
)
async def test_one_client_waits_for_it(
    *, taken: int, alarmed: bool, wait: int | Word, broker: Any, raw: Any, clock: Clock
) -> None:
    """Another one has the alarm, and no later than this event."""
    raw.set(KEYS["alarm"], clock.now + taken, px=PATIENCE)
    assert await claimed(broker, raw, clock, {"scheduled": [50]}, alarmed=alarmed) == wait
    assert float(raw.get(KEYS["alarm"])) == clock.now + (50 if wait == 50 else taken)
