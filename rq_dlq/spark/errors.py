"""Errors without a traceback. Spark shows the whole traceback of an error, so ours are raised without one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rq_dlq.errors import RqDlqError

P = ParamSpec("P")
R = TypeVar("R")


def without_traceback(method: Callable[P, R]) -> Callable[P, R]:
    """The same method, but errors of rq_dlq are raised without traceback and cause."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except RqDlqError as error:
            raise error.with_traceback(None) from None

    return call
