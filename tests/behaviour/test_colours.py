"""The two colours are twins: the same names, the same signatures."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq.dlq import DeadLetters
from rq_dlq.policies import Policies

TWINS = {
    "Broker": (rq_dlq.Broker, rq_dlq.asyncio.Broker),
    "Queue": (rq_dlq.Queue, rq_dlq.asyncio.Queue),
    "Delivery": (rq_dlq.Delivery, rq_dlq.asyncio.Delivery),
    "DeadLetters": (DeadLetters, rq_dlq.asyncio.DeadLetters),
    "Policies": (Policies, rq_dlq.asyncio.Policies),
    "Selection": (rq_dlq.Selection, rq_dlq.asyncio.Selection),
    "Session": (rq_dlq.Session, rq_dlq.asyncio.Session),
}
# What only one of them has, and why.
ALONE = {
    "Broker.add_handler": "a worker's handlers are registered with the blocking broker",
    "Broker.handlers": "likewise",
    "Broker.run": "a worker is a program, whatever its handlers await",
    "Broker.connect": "the worker's connections",
    "Broker.unchecked": "the doctor's, which looks at what `connect` would refuse",
    "Broker.connections": "opened by awaiting in the other colour",
    "Broker.twin": "there is one way across",
    "Queue.handler": "handlers, def or async def, are those of a worker",
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", TWINS)
def test_same_names(name: str) -> None:
    plain, awaiting = map(public, TWINS[name])
    only_one = {f"{name}.{member}" for member in plain ^ awaiting}
    assert only_one <= ALONE.keys()


def methods() -> list[Any]:
    return [
        pytest.param(getattr(plain, name), getattr(awaiting, name), id=f"{kind}.{name}")
        for kind, (plain, awaiting) in TWINS.items()
        for name in sorted(public(plain) & public(awaiting))
        if callable(getattr(plain, name))
    ]


@pytest.mark.parametrize(("plain", "awaiting"), methods())
def test_same_parameters(plain: Any, awaiting: Any) -> None:
    assert shape(plain) == shape(awaiting)


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


@pytest.mark.parametrize(("plain", "awaiting"), methods())
def test_one_awaits_where_the_other_blocks(plain: Any, awaiting: Any) -> None:
    assert not inspect.iscoroutinefunction(plain)
    does_no_io = awaiting.__name__ in {"queue", "delivery", "address", "select", "session"}
    assert inspect.iscoroutinefunction(awaiting) is not does_no_io


def test_same_constructor() -> None:
    for plain, awaiting in TWINS.values():
        mine, other = (list(inspect.signature(kind).parameters) for kind in (plain, awaiting))
        assert sorted(mine) == sorted(other) or plain is DeadLetters
