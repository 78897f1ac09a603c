"""Properties computed once, without a lock.

A forked child has only the thread that forked: a lock that another thread held stays locked in it.
"""

from __future__ import annotations

import sys

__all__ = ["cached_property"]

if sys.version_info >= (3, 12):
    from functools import cached_property  # noqa: TID251 - the same class
else:
    from collections.abc import Callable
    from typing import Any, Generic, Self, TypeVar, overload

    T = TypeVar("T")

    class cached_property(Generic[T]):  # noqa: N801 - named as in functools
        """As in Python 3.12; Python 3.11 holds a lock while it computes."""

        def __init__(self, compute: Callable[[Any], T]) -> None:
            self._compute = compute
            self._name = ""
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type) -> T: ...
        def __get__(self, instance: object | None, owner: type) -> Self | T:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
