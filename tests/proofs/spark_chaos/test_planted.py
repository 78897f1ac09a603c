"""The bugs that are planted into the Lua fit it."""

from __future__ import annotations

import pytest

from rq_dlq._scripts import _files
from tests.proofs.spark_chaos.planted import PLANTS, Change

CHANGES = {name: each.plant for name, each in PLANTS.items() if isinstance(each.plant, Change)}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_its_text_stands_once_in_its_module(change: Change) -> None:
    assert _files()[change.module].count(change.was) == 1
