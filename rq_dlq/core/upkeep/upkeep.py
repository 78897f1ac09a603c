"""Steps of maintenance of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rq_dlq.core.gathers import carrying
from rq_dlq.core.jobs.jobs import roll_forward
from rq_dlq.core.redrive import redrives
from rq_dlq.core.schedules.schedules import fire
from rq_dlq.core.steps.step import CHANGED, Steps, seed
from rq_dlq.core.upkeep import calls

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.call import Call

MaintenanceRole = Literal["redelivery", "expiry", "retention", "commits", "schedules", "redrives"]
STEP = 50  # messages that the calls of one round trip move at most: about 1 ms of Redis
# By role: an index, the work when its first entry is due, and the setting for how long that is kept.
INDEXES: dict[MaintenanceRole, tuple[tuple[str, str, str], ...]] = {
    "redelivery": (("leases", "swept", ""), ("scheduled", "promoted", ""), ("gathers", "gathered", "")),
    "expiry": (("expiring", "expired", ""),),
    "retention": (("dead", "retired", "dead_for"), ("expired", "retired", "expired_for")),
    "commits": (("committed", "written", ""),),
    "schedules": (("ticks", "fired", ""),),
    "redrives": (("redriving", "redriven", ""),),
}
# By role: two indexes, and the work while their sizes differ.
PAIRS: dict[MaintenanceRole, tuple[tuple[str, str, str], ...]] = {
    "retention": (("dead", "groups", "grouped"),),
}
# By role: periodic work that no index shows.
CHECKS: dict[MaintenanceRole, tuple[str, ...]] = {"redelivery": ("reindexed",)}
DONE = {
    role: dict.fromkeys(
        [*(name for _, name, _ in rows), *(name for *_, name in PAIRS.get(role, ())), *CHECKS.get(role, ())]
    )
    for role, rows in INDEXES.items()
}
ROLES = tuple(INDEXES)
SEVERAL = {
    "written": roll_forward,
    "fired": fire,
    "redriven": redrives.go_on,
    "gathered": carrying.look,
}  # steps of more than one call
CALLS = {
    "promoted": calls.promote,
    "expired": calls.expire,
    "retired": calls.retire,
    "grouped": calls.regroup,
    "reindexed": calls.reindex,
}


def step(name: str, keys: QueueKeys, default_policy: bytes, limit: int) -> Steps[int]:
    """Run one step of maintenance, such as "swept"; how many messages it concerned."""
    if name in SEVERAL:
        return (yield from SEVERAL[name](keys, limit))
    return (yield call(name, keys, default_policy, limit))  # type: ignore[no-any-return]


def call(name: str, keys: QueueKeys, default_policy: bytes, limit: int) -> Call[int]:
    """The same as one call, for a step that is one call."""
    if name in {"swept", "grouped", "reindexed"}:
        limit = min(limit, CHANGED)  # it checks each message individually
    if name == "swept":
        return calls.sweep(keys, limit=limit, seed=seed(), default_policy=default_policy)
    return CALLS[name](keys, limit=limit)
