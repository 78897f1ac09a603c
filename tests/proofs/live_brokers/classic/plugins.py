"""Redelivery by the broker: the redeliveryPlugin there, the imported entries here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rq_dlq.policy.presets import deliveries_of_both
from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, better
from tests.proofs.live_brokers.scenario import TICK, Scenarios, fail, failing, places

SCENARIOS = Scenarios()
ASKS_THE_BROKER = {"maximumRedeliveries": 0}
"""The policy of a client that leaves redelivery to the broker; here there is none of its own."""
PLUGIN: Mapping[str, Any] = {"client": ASKS_THE_BROKER, "late": TICK, "quiet": 6}

SCENARIOS.add_failing("broker-fixed", "plugin: 1000, then 2000, 3 redeliveries", "again.fixed", **PLUGIN)
SCENARIOS.add_failing(
    "broker-exponential",
    "plugin: 1000 x 2, at most 3000, 3 redeliveries",
    "again.growing",
    **PLUGIN,
)
SCENARIOS.add_failing("broker-none", "plugin: no redeliveries", "again.never", **PLUGIN)


@SCENARIOS.add("2 redeliveries by the client and 3 by the plugin")
def client_and_broker(side: Side) -> Facts:
    waits = {"initialRedeliveryDelay": 100, "redeliveryDelay": 100}
    all_here = (deliveries_of_both(2, 3) or 0) - 1
    policy = {**waits, "maximumRedeliveries": all_here}
    facts = failing(side, "again.both", quiet=4, policy=policy, client={**waits, "maximumRedeliveries": 2})
    return {"deliveries": facts["deliveries"], "ends_in": facts["ends_in"]}


@SCENARIOS.add(
    "plugin: time to live 2500, redeliveries after 2000",
    deliveries=better("there the plugin takes the time to live off; here it holds"),
)
def broker_expiry(side: Side) -> Facts:
    side.send("again.expiring", "again expiring", ttl=2500)
    seen = fail(side.consumer("again.expiring", client=ASKS_THE_BROKER), quiet=5)
    return {"deliveries": len(seen), "ends_in": places(side.find("again expiring"))}
