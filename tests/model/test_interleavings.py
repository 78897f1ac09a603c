"""T1: no order of calls breaks a rule, and where one would, the search finds the shortest way to it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.model.driver import Driver
from tests.model.interleavings.planted import FAULTS, Fault
from tests.model.interleavings.reduced import NOW, TICK
from tests.model.interleavings.scopes import ELSEWHERE, SCOPES, Scope
from tests.model.interleavings.search import Action, Search, Violation
from tests.model.interleavings.server import unpack
from tests.model.interleavings.verbs import verbs
from tests.model.interleavings.walk import Walk, retold
from tests.model.interleavings.world import read
from tests.verbs import VERBS, check_all_tried

BY_NAME = {scope.name: scope for scope in SCOPES}
SHOWN = [
    pytest.param(fault, marks=() if n % 3 == 0 else pytest.mark.slow)
    for n, fault in enumerate(FAULTS.values())
]
"""A third of them show by default that the search finds faults."""
pytestmark = pytest.mark.parametrize("backend", ["real"], indirect=True)


@pytest.mark.parametrize("scope", SCOPES, ids=BY_NAME)
def test_no_order_breaks_a_rule(raw: Any, scope: Scope) -> None:
    """With one message; with more: `python -m tests.proofs.reliability T1`."""
    search = Search(raw, replace(scope, messages=1))
    search.run()
    assert search.transitions > 100


def test_every_verb_is_in_a_scope(raw: Any) -> None:
    variants, tried = verbs(Driver(raw), most=1), {verb for scope in SCOPES for verb in scope.verbs}
    assert tried == variants.keys()
    check_all_tried(VERBS, {variant.of for variant in variants.values()}, ELSEWHERE)


@pytest.mark.parametrize("scope", SCOPES, ids=BY_NAME)
def test_worlds_that_are_one_have_the_same_future(raw: Any, scope: Scope) -> None:
    """A long way that is never reduced comes through the worlds that the search has for it."""
    search = Search(raw, replace(scope, messages=3))
    walk, draw = Walk(search), random.Random(7)
    for _ in range(200):
        world, _ = walk.reduced()
        possible = list(search.actions(world))
        action, _, trip = draw.choice([*possible, *[(Action("tick"), None, None)] * 4])
        after, now = world, NOW + TICK
        if trip is not None:
            ((_, cells), *_), *_ = search.server.run([trip])
            after, now = read(unpack(cells)), NOW
        expected, _ = scope.reduction(after, now)
        walk.do(action)
        assert walk.reduced()[0].key == expected.key, action


@pytest.mark.usefixtures("backend")
def test_each_fault_can_be_planted() -> None:
    for fault in FAULTS.values():
        fault.verbs()


@pytest.mark.parametrize("fault", SHOWN, ids=FAULTS)
def test_a_fault_is_found(raw: Any, fault: Fault) -> None:
    search = Search(raw, replace(BY_NAME[fault.scope], messages=2), fault.verbs())
    with pytest.raises(Violation, match=fault.rule) as caught:
        search.run()
    told = retold(search, caught.value.way).splitlines()
    assert len(told) == fault.steps, told
    assert re.search(fault.rule, told[-1])
