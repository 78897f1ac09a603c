"""Operations of many steps, run by hand: something else happens in between, or they are stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from rq_dlq.core.steps.call import Call


async def drive(broker: Any, steps: Any, between: Callable[[str], Awaitable[None]]) -> Any:
    """Run steps to their end; after each script (named) something else happens. What they return."""
    value: Any = None
    while True:
        try:
            step = steps.send(value)
        except StopIteration as stop:
            return stop.value
        value = await broker._run(alone(step))
        await between(step.verb if isinstance(step, Call) else "")


async def stop_after(broker: Any, steps: Any, script: str) -> None:
    """Run steps up to the first run of a script, and no further."""
    value: Any = None
    while True:
        step = steps.send(value)
        value = await broker._run(alone(step))
        if isinstance(step, Call) and step.verb == script:
            steps.close()
            return


def alone(step: Any) -> Any:
    """The steps of one step."""
    return (yield step)
