"""A deque that several threads use: what one of them takes out is in no other's hands."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections import deque


T = TypeVar("T")


def take_all(shared: deque[T]) -> list[T]:
    """Take all out; another thread may take some of it meanwhile."""
    taken: list[T] = []
    while shared:
        try:
            taken.append(shared.popleft())
        except IndexError:  # another thread took the last
            break
    return taken


def take(shared: deque[T], one: T) -> bool:
    """Take one out; False: it is not there, as another thread took it."""
    try:
        shared.remove(one)
    except ValueError:
        return False
    return True
