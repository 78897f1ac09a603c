"""The loop that runs generators: the steps get what became of each step, and decide what an error means."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from rq_dlq.core.steps.driving import drive

Steps = Generator[Any, Any, Any]


def careful() -> Steps:
    """Asks twice; goes on after an error, and says so."""
    try:
        first = yield "first"
    except ValueError as error:
        first = f"lost: {error}"
    second = yield "second"
    return first, second


def asking(step: str) -> Steps:
    """Leaves a step to whoever runs this, in words of its own."""
    return (yield f"what is {step}?")


def test_the_result_of_each_step_goes_back_in() -> None:
    running = drive(careful(), asking)
    assert next(running) == "what is first?"
    assert running.send(1) == "what is second?"
    with pytest.raises(StopIteration) as ended:
        running.send(2)
    assert ended.value.value == (1, 2)


def test_an_error_goes_back_in_and_the_steps_go_on() -> None:
    running = drive(careful(), asking)
    next(running)
    assert running.throw(ValueError("no reply")) == "what is second?"
    with pytest.raises(StopIteration) as ended:
        running.send(2)
    assert ended.value.value == ("lost: no reply", 2)


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, GeneratorExit])
def test_an_error_that_the_steps_do_not_catch_ends_both(kind: type[BaseException]) -> None:
    steps = careful()
    running = drive(steps, asking)
    next(running)
    with pytest.raises(kind):
        running.throw(kind())
    assert next(steps, "over") == "over"


def test_what_is_for_the_caller_is_returned_and_another_call_goes_on() -> None:
    def pages() -> Steps:
        said = yield "a step"
        yield [said]
        yield "another"
        yield []

    steps = pages()
    running: Steps = drive(steps, asking, until=list)
    assert next(running) == "what is a step?"
    with pytest.raises(StopIteration) as found:
        running.send("it")
    assert found.value.value == ["it"]
    assert next(drive(steps, asking, until=list)) == "what is another?"


def test_steps_that_have_begun_wait_for_a_reply_or_an_error() -> None:
    for reply, error, first in ((1, None, 1), (None, ValueError("late"), "lost: late")):
        steps = careful()
        next(steps)
        running = drive(steps, asking, reply, error)
        assert next(running) == "what is second?"
        with pytest.raises(StopIteration) as ended:
            running.send(2)
        assert ended.value.value == (first, 2)
