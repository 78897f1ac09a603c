"""Tasks, for the tests of the backend; imported when there are settings."""

from __future__ import annotations

from typing import Any

from django.db import connections

from rq_dlq.django.backend import TaskBackend
from tests.django.api import task

ran: list[Any] = []


class Own(TaskBackend):
    """A backend of the project."""


@task()
def double(number: int, *, plus: int = 0) -> int:
    ran.append(number)
    return 2 * number + plus


@task()
async def double_async(number: int) -> int:
    return 2 * number


@task(queue_name="mails", priority=10)
def mail(to: str) -> None:
    ran.append(to)


@task(takes_context=True)
def attempt(context: Any, until: int) -> list[Any]:
    ran.append(context.attempt)
    if context.attempt < until:
        raise ValueError(f"attempt {context.attempt}")
    return [context.attempt, context.task_result.id]


@task()
def strange() -> object:
    return object()


@task()
def connected() -> bool:
    return connections["default"].connection is not None


class Nested:
    class Error(Exception):
        pass


@task()
def fail(kind: str) -> None:
    errors: dict[str, BaseException] = {
        "built in": ValueError("it is wrong"),
        "nested": Nested.Error("it is nested"),
        "exit": SystemExit("it ends"),
        "in another": ValueError(ValueError("it is inside")),
    }
    raise errors[kind]


@task()
def give(value: Any) -> Any:
    return value


def plain() -> None:
    ran.append("plain")
