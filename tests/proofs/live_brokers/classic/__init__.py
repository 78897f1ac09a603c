"""Scenarios beside ActiveMQ Classic."""

from __future__ import annotations

from tests.proofs.live_brokers.classic import (
    dead_letters,
    expiry,
    kills,
    names,
    plugins,
    redelivery,
    sessions,
)
from tests.proofs.live_brokers.scenario import Scenarios

ALL = Scenarios()
for part in (redelivery, sessions, names, dead_letters, expiry, plugins, kills):
    ALL.include(part.SCENARIOS)
