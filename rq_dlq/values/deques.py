"""A deque shared by threads: each item is taken by exactly one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections import deque


T = TypeVar("T")


def take_all(shared: deque[T]) -> list[T]:
    """Take all items; another thread may take some of them at the same time."""
    taken: list[T] = []
    while shared:
        try:
            taken.append(shared.popleft())
        except IndexError:  # another thread took the last item
            break
    return taken


def take(shared: deque[T], one: T) -> bool:
    """Take an item; False: another thread has already taken it."""
    try:
        shared.remove(one)
    except ValueError:
        return False
    return True
