"""Scenarios beside NATS Streaming: what a subscription does, and a queue with its settings."""

from __future__ import annotations

from tests.proofs.live_brokers.nats_streaming import acks, calls, groups
from tests.proofs.live_brokers.scenario import Scenarios

ALL = Scenarios()
for part in (calls, groups, acks):
    ALL.include(part.SCENARIOS)
