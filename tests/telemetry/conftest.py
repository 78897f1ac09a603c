"""Telemetry of brokers on a real server: the fake one has its tests by verb."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["real"])
def backend(request: pytest.FixtureRequest) -> str:
    """Only the real server."""
    return str(request.param)
