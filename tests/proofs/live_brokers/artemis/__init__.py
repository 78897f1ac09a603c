"""Scenarios beside ActiveMQ Artemis."""

from __future__ import annotations

from tests.proofs.live_brokers.artemis import (
    consumers,
    dead_letters,
    doors,
    example,
    expiry,
    operators,
    redelivery,
)
from tests.proofs.live_brokers.scenario import Scenarios

ALL = Scenarios()
for part in (redelivery, consumers, dead_letters, doors, expiry, operators):
    ALL.include(part.SCENARIOS)
EXAMPLE = example.SCENARIOS
