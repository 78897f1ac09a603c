"""The walks: random calls of the model, with and without rules for keys, and every step of every script."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import redis

from rq_dlq._scripts import Form
from tests import servers
from tests.conftest import MOVED_CLOCK
from tests.model import driver, lanes, machine, world
from tests.model.steps import STEPS
from tests.proofs.two_forms.twin import Both, TwinDriver

Walk = Callable[[], object]


@contextmanager
def both(form: Form) -> Generator[Both]:
    """Two servers, and all drivers of the model on both."""
    with servers.running() as one, servers.running() as other, pytest.MonkeyPatch.context() as patch:
        version = tuple(
            map(int, redis.Redis(unix_socket_path=one).info("server")["redis_version"].split("."))
        )
        TwinDriver.forms = tuple(MOVED_CLOCK.as_form(each).for_server(version) for each in ("scripts", form))  # type: ignore[assignment]
        for module in (driver, lanes, machine, world):
            patch.setattr(module, "Driver", TwinDriver)
        yield Both(*(redis.Redis(unix_socket_path=path) for path in (one, other)))


def walks(raw: Both, first: int, draws: int, steps: int) -> Iterator[tuple[str, Walk]]:
    """The walks by their names."""
    for name in STEPS:
        yield name, partial(_step, raw, name)
    for draw in range(first, first + draws):
        for mode in (*lanes.MODES, *lanes.RATED):
            for how in ({}, {"turned_on": True}, {"outages": True}):
                yield f"{mode}, draw {draw}, {how}", partial(lanes.drive, raw, mode, draw, steps, **how)
        yield f"model, draw {draw}", partial(machine.check, raw, 5, steps, draw, shortest=False)


def _step(raw: Both, name: str) -> None:
    at = world.World(raw)
    at.queue.run(STEPS[name][0](at))


def failures(form: Form, only: str, first: int, draws: int, steps: int) -> Iterator[tuple[str, str]]:
    """The walks that found a difference, and what it was."""
    with both(form) as raw:
        for name, walk in walks(raw, first, draws, steps):
            if only not in name:
                continue
            try:
                walk()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
                lines = traceback.format_exception(error)
                yield name, "".join(lines)[-3000:]
            else:
                yield name, ""
