"""What must hold at each moment of an outage that is played on the real scripts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from rq_dlq.policy.outage import CALM, Outage, OutagePlan
from rq_dlq.testing.outage import DEPENDENCY, Fleet, fleet
from rq_dlq.values.key import lane_of

LANE = str(lane_of(DEPENDENCY, "dependency"))
FLOOD = 32  # that are let in and not yet acked, at most
PROBES = 3  # the same, while it is down


@dataclass
class Watch:
    """Looks at a fleet after each event.

    Attributes:
        wrong: rules that did not hold.
    """

    fleet: Fleet
    wrong: dict[str, None] = field(default_factory=dict[str, None])

    def look(self) -> None:
        """What must hold always."""
        fleet, keys = self.fleet, self.fleet.queue._core.keys
        text = fleet.raw.hget(keys["special"], LANE)
        lane = json.loads(text) if text else {}
        if "open" in lane and fleet.now < CALM:
            self.wrong["it opened while all was well"] = None
        passes = fleet.raw.zcount(keys["seats"], LANE, LANE)
        if ("drains" in lane and passes > FLOOD) or ("open" in lane and passes > PROBES):
            self.wrong["a flood: too many are let in at once"] = None

    def look_at_the_end(self) -> None:
        """What must hold when all is over."""
        if any(one.acked is None for one in self.fleet.messages.values() if not one.needs):
            self.wrong["a message of the other tenant was never done"] = None

    def look_at_who_waits(self) -> None:
        """Nobody is charged for that."""
        fleet, keys = self.fleet, self.fleet.queue._core.keys
        score = (1 << 43) + int(LANE)
        names = [row[8:].decode() for row in fleet.raw.zrangebyscore(keys["scheduled"], score, score + 0.5)]
        states = fleet.raw.hmget(keys["states"], names) if names else []
        for name, state in zip(names, states, strict=True):
            if state is not None and state.split(b" ")[4] != b"0" and not fleet.messages[name].poison:
                self.wrong["a message that waits was charged"] = None


def suffer(url: str, plan: OutagePlan, draw: int) -> tuple[Outage, list[str]]:
    """An outage, and the rules that did not hold."""
    with fleet(url, plan, draw) as played:
        watch, was_down = Watch(played), False
        for _ in played.moments():
            watch.look()
            if was_down and not played.is_down:
                watch.look_at_who_waits()
            was_down = played.is_down
        watch.look_at_the_end()
        return played.outcome(), [*watch.wrong]
