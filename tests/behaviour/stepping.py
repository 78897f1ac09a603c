"""Operations of many steps, run by hand: something else happens in between, or they are stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rq_dlq.core.steps.step import calls_of


async def drive(broker: Any, steps: Any, between: Callable[[str], Awaitable[None]]) -> Any:
    """Run steps to their end; after each round trip something else happens, for each script in it (named).

    It is told once of several runs of a script in a round trip, and "" of a round trip without any. What the
    steps return.
    """
    value: Any = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as stop:
            return stop.value
        value = await broker._run(alone(step))
        scripts = dict.fromkeys(call.verb for call in calls_of(step) if call.verb)
        for script in scripts or ("",):
            await between(script)


async def stop_after(broker: Any, steps: Any, script: str) -> None:
    """Run steps up to the first run of a script, and no further."""
    value: Any = None
    while True:
        step = steps.send(value)
        value = await broker._run(alone(step))
        if any(call.verb == script for call in calls_of(step)):
            steps.close()
            return


def alone(step: Any) -> Any:
    """The steps of one step."""
    return (yield step)
