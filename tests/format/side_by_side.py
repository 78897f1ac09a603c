"""What must hold where two forms of the format are on one queue: checks of each step of the model."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from typing import Any

import msgspec

from rq_dlq._scripts import Joined
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.values.state import read_state
from tests.conftest import MOVED_CLOCK
from tests.contents import contents
from tests.format import other
from tests.model.calls import ASKED, AT_ONCE_DEAD, DISCARD, Step, T, held, transfer, under
from tests.model.driver import Driver
from tests.model.steps import NONE, STEPS
from tests.model.stops import Drains, in_part
from tests.model.world import Beginning, World


def redriven(call: Step, *, claimed: bool = True) -> Step:
    """The call when a redrive with a time to live has brought d1 and x1 back, and R holds them if claimed."""

    def step(world: World) -> Call[Any]:
        world.raw.rpush(world.keys.redrive("j"), "d1", "x1")
        asked = msgspec.structs.replace(ASKED, ttl=9_000)
        world.queue.run(redrive_calls.start_redrive(world.keys, "j", asked, listed=2, gone=0, grace=0))
        world.queue.run(redrive_calls.step_redrive(world.keys, "j", limit=10, grace=10_000))
        if claimed:
            world.queue.run(world.queue.claim_call("R", 9))
        return call(world)

    return step


R = ("d1", "x1")
ALL: dict[str, tuple[Step, AbstractSet[str]]] = {
    **STEPS,
    "ack the redriven": (redriven(lambda w: settling_calls.ack(w.keys, held("R", *R))), {*R}),
    "nack the redriven": (redriven(lambda w: w.nack("R", *R, delay=0)), NONE),
    "nack the redriven past the ttl": (redriven(lambda w: w.nack("R", *R, delay=20_000)), NONE),
    "nack the redriven to death": (redriven(lambda w: w.nack("R", *R, policy=AT_ONCE_DEAD)), NONE),
    "poison the redriven, discarding": (
        under({"dead_letter": DISCARD}, redriven(lambda w: w.poisoned("R", *R))),
        {*R},
    ),
    "move the redriven": (
        redriven(transfer("ready", *R), claimed=False),
        {*R, *(f"to/{name}" for name in R)},
    ),
}
"""Each step, also of messages whose states have all the words that this version writes."""
FORMS: dict[str, Joined] = {"present": MOVED_CLOCK, "other": other.OTHER}


class Worlds:
    """Worlds that one form wrote, each made once for a kind of servers."""

    def __init__(self) -> None:
        self._beginnings: dict[tuple[type, str], Beginning] = {}

    def build(self, raw: Any, form: str, step: str) -> tuple[World, Any]:
        """A queue that one form wrote, and the call that is to be done to it."""
        with nullcontext() if form == "present" else other.packing():
            kind = type(raw), form
            if kind not in self._beginnings:
                self._beginnings[kind] = Beginning.of(World(raw, FORMS[form]))
            world = World(raw, FORMS[form], self._beginnings[kind])
            return world, ALL[step][0](world)


def check_step(worlds: Worlds, raw: Any, step: str) -> None:
    """Each form does on the other's what it does on its own, and leaves alone what only the other says.

    Each message comes once then, to a consumer of the one form, from what the other wrote.

    Raises:
        AssertionError: it does not.
    """
    _, call = worlds.build(raw, "present", step)
    Driver(raw).run(call)
    alone = contents(raw)
    for writer, doer in (("other", "present"), ("present", "other"), ("other", "other")):
        world, call = worlds.build(raw, writer, step)
        before, there = said(raw, world.queue), said(raw, world.other)
        Driver(raw, verbs=FORMS[doer]).run(call)
        assert other.without(contents(raw)) == alone, f"{step}: {doer} on what {writer} wrote"
        for state in raw.hvals(world.keys["states"]):
            assert read_state(state) == read_state(other.without(state)) is not None, state
        if doer == "present":
            after = said(raw, world.queue)
            anew = {name.encode() for name in T} if _runs_again(step) else set[bytes]()
            kept = {name: text for name, text in before.items() if name not in anew}
            assert after == {name: kept.get(name, found) for name, found in after.items()}, step
            moved = {} if step.startswith("copy") else before  # a copy begins anew
            after = said(raw, world.other)
            kept = {name: there.get(name, moved.get(name, found)) for name, found in after.items()}
            assert after == kept, step
        if doer != writer:
            world.queue.verbs = world.other.verbs = FORMS[doer]
            seen = Drains().check(world, ALL[step][1], f"{doer} on what {writer} wrote, {step}")
            assert not in_part(step, seen), step
    assert any(seen for seen, _ in before.values()), f"{step}: the other form says nothing"


def _runs_again(step: str) -> bool:
    """Whether the step puts the held messages back as new ones, of which the other form says nothing."""
    return "asked again" in step and step.startswith(("ack", "commit"))


def said(raw: Any, queue: Driver) -> dict[bytes, tuple[int, bytes]]:
    """What the other form says of the messages of a queue."""
    return other.fields(raw.hgetall(queue.keys["states"]), raw.hgetall(queue.keys["messages"]))
