"""What must hold where two forms of the format are on one queue: checks of each step of the model."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from rq_dlq._scripts import Scripts
from tests.conftest import MOVED_CLOCK
from tests.contents import contents
from tests.format import other
from tests.model.driver import Driver
from tests.model.steps import STEPS
from tests.model.stops import Drains, in_part
from tests.model.world import Beginning, World

FORMS: dict[str, Scripts] = {"present": MOVED_CLOCK, "other": other.OTHER}


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
            return world, STEPS[step][0](world)


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
        Driver(raw, scripts=FORMS[doer]).run(call)
        assert other.without(contents(raw)) == alone, f"{step}: {doer} on what {writer} wrote"
        if doer == "present":
            after = said(raw, world.queue)
            assert after == {name: before.get(name, found) for name, found in after.items()}, step
            moved = {} if step.startswith("copy") else before  # a copy begins anew
            after = said(raw, world.other)
            kept = {name: there.get(name, moved.get(name, found)) for name, found in after.items()}
            assert after == kept, step
        if doer != writer:
            world.queue.scripts = world.other.scripts = FORMS[doer]
            seen = Drains().check(world, STEPS[step][1], f"{doer} on what {writer} wrote, {step}")
            assert not in_part(step, seen), step
    assert any(seen for seen, _ in before.values()), f"{step}: the other form says nothing"


def said(raw: Any, queue: Driver) -> dict[bytes, tuple[int, bytes]]:
    """What the other form says of the messages of a queue."""
    return other.fields(raw.hgetall(queue.keys["states"]), raw.hgetall(queue.keys["messages"]))
