"""A queue, whose keys agree with each other when a test is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.audit import audit
from tests.model.bench import Bench


@pytest.fixture
def bench(raw: Any) -> Iterator[Bench]:
    """The few verbs that the tests need."""
    bench = Bench(raw)
    yield bench
    audit(raw, "q")
