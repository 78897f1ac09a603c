"""The bugs that are planted into the Lua fit it; those that stay hidden are told."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.progress import Progress

from rq_dlq._scripts import _files
from tests.proofs.spark_chaos.__main__ import missed, tried
from tests.proofs.spark_chaos.planted import PLANTS, Change
from tests.proofs.spark_chaos.scenario import Scenario
from tests.proofs.spark_chaos.world import World, require, wait_for

CHANGES = {name: each.plant for name, each in PLANTS.items() if isinstance(each.plant, Change)}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_its_text_stands_once_in_its_module(change: Change) -> None:
    assert _files()[change.module].count(change.was) == 1


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (lambda world: world.trial("nothing is wrong"), "1 bugs; missed: a bug in a row\n"),
        (lambda _: require(0, "another message died"), "1 bugs; missed: none\n"),
        (
            lambda _: wait_for(lambda: False, "the program ends", 0.01),
            "1 bugs; missed: none\nby a wait in vain alone, so maybe only slow: a bug in a row\n",
        ),
    ],
    ids=["hidden", "found", "late"],
)
def test_a_bug_that_is_hidden_is_told_and_one_that_only_takes_long(
    run: Callable[[World], None], told: str
) -> None:
    console = Console(file=io.StringIO(), width=120)
    result = tried(Scenario("a row", "", "", run), 0, Progress(console=Console(file=io.StringIO())))
    missed([("a row", "a bug")], [result], console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == told
