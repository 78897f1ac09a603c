"""One suite for both colours: the blocking API behind the awaiting one's face."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Generator
from inspect import isfunction
from typing import Any, Self

import rq_dlq
from rq_dlq.client.dependency import Dependency, DependencyOfAll
from rq_dlq.client.dlq import DeadLetters
from rq_dlq.client.gather import Gather, GatheredTask
from rq_dlq.client.key import Key
from rq_dlq.client.plan import Plan
from rq_dlq.client.policies import Policies
from rq_dlq.client.redrive import RedriveJob
from rq_dlq.client.selection import Selection
from rq_dlq.client.session import Session

_FACES = (
    rq_dlq.Broker,
    rq_dlq.Queue,
    rq_dlq.Delivery,
    DeadLetters,
    Dependency,
    DependencyOfAll,
    Gather,
    GatheredTask,
    Key,
    Plan,
    Policies,
    RedriveJob,
    Selection,
    Session,
    rq_dlq.Task,
)
PLAIN = {
    "consume",
    "handler",
    "dependency",
    "gather",
    "key",
    "lifespan",
    "observe",
    "options",
    "queue",
    "select",
    "session",
    "task",
}  # what does not await in either colour


PROPERTIES = {"gathered"}  # that are awaited


class Awaited:
    """A blocking object whose methods are awaited."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def __str__(self) -> str:
        return str(self.inner)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if name in PROPERTIES:
            return _done(value)
        if not callable(value) or name in PLAIN:
            return _plain(value) if callable(value) else _face(value)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return _face(value(*_bare(args), **{name: _bare(given) for name, given in kwargs.items()}))

        return call

    async def __aenter__(self) -> Self:
        self.inner.__enter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return self.inner.__exit__(*error)


async def _done(value: Any) -> Any:
    return value


def _plain(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _face(function(*_bare(args), **{name: _bare(value) for name, value in kwargs.items()}))

    return call


def _face(value: Any) -> Any:
    if isinstance(value, _FACES):
        return Awaited(value)
    if isfunction(value):  # a decorator
        return _plain(value)
    if isinstance(value, Generator):
        return _awaited(value)
    if isinstance(value, list):
        return [_face(item) for item in value]
    return value


async def _awaited(loop: Generator[Any]) -> AsyncGenerator[Any]:
    try:
        for value in loop:
            yield _face(value)
    finally:
        loop.close()


def _bare(value: Any) -> Any:
    if isinstance(value, Awaited):
        return value.inner
    if isinstance(value, list | tuple | deque):
        return type(value)(_bare(item) for item in value)
    return value
