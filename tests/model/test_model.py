"""T2: the real Lua and the model do the same, whatever is done to them (I1 to I8, I12, I13).

A model in plain Python says what each verb does, and hypothesis draws the verbs. After each step the queue
has the same messages in the same order, the same seats and the same blocked ones
(tests/model/keyed_model.py), under `order`, `order hold` and `limit`. What the model does not know has rules
that hold after each step instead (tests/model/lanes.py): turns, rates, outages, a rule that is turned on over
a full queue, pauses and limits of single keys, interrupted calls.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.actions import ACTIONS
from tests.model.machine import Machine, check
from tests.verbs import VERBS, check_all_tried

NOT_MODELLED = {
    "set_policy": "the map of policies is not a key of the queue, and no other script reads it",
    **dict.fromkeys(
        ("start_redrive", "step_redrive", "offer_redrive", "steer_redrive", "undo_redrive"),
        "it does what redrive does, and behaviour/redrive/test_redrives has its counts; T4",
    ),
    **dict.fromkeys(
        ("open_gather", "send_children", "close_gather", "carry_gather", "cancel_gather"),
        "of gathers, which have a model of their own: model/test_gathers",
    ),
    "send_limited": "it does what send does, beside a limit: behaviour/sending/test_max_length, and T48",
    "renumber": "it is of queues of 0.1.0: model/survived_mutants/test_renumber, also cut off",
    "delete": "nothing is left to compare, and behaviour/queues/test_delete looks at the keys",
    **dict.fromkeys(
        ("due", "schedule"), "the client works out its ticks: behaviour/schedules/test_schedules"
    ),
    "limit_lane": "of no message, but who is let in by it: model/lanes.py, also cut off",
    "mute": "of no message: behaviour/dead_letters/test_muting",
    "probe_lane": "model/lanes.py, with keys and without, and cut off",
    "pause_lane": "model/lanes.py, with keys and without, and cut off",
    "restore": "it adds dead messages from outside, and cli/test_exports compares them with those exported",
    "browse": "after each step it reads all of the queue, to compare it with the model",
    "progress": "it writes a word that no script reads: behaviour/settling/test_progress",
    "result": "it changes nothing: behaviour/results/test_results",
    "scan": "it changes nothing, and behaviour/pages/test_scan compares it with browse",
    "stats": "it changes nothing, and is compared with the audit in the behaviour tests",
}


def test_every_verb_is_an_action() -> None:
    """By name, in the code of the action: which ones a run draws, differs from run to run."""
    named = {name for action in ACTIONS for name in getattr(Machine, action).__code__.co_names}
    named |= {name.removesuffix("_call") for name in named}  # of the driver
    check_all_tried(VERBS, named & VERBS.keys(), NOT_MODELLED)


@pytest.mark.parametrize("backend", ["real"], indirect=True)
def test_lua_does_what_the_model_does(raw: Any) -> None:
    check(raw, 40, 40)


@pytest.mark.parametrize("backend", ["fake"], indirect=True)
def test_the_fake_does_what_the_model_does(raw: Any) -> None:
    check(raw, 4, 30)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("backend", "examples"), [("real", 2_000), ("fake", 100)], indirect=["backend"], ids=["real", "fake"]
)
def test_lua_does_what_the_model_does_for_long(raw: Any, examples: int) -> None:
    check(raw, examples, 50)
