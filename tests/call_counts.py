"""How much work a function does, in calls rather than in seconds, so that a busy machine changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def calls(run: Callable[[], object], folder: str | None = None) -> int:
    """The number of calls that a function makes, itself and below; each step of a generator is one, too.

    Args:
        folder: count the functions in its files alone; None: all, also those that C defines.
    """
    count = 0

    def on_event(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        del arg
        if folder is None:
            count += event in {"call", "c_call"}
        else:
            count += event == "call" and frame.f_code.co_filename.startswith(folder)

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def growth(run: Callable[[int], object], size: int) -> float:
    """By which factor the calls of a function grow if its input is four times as large: linear is 4."""
    run(size)  # what happens only once
    return calls(lambda: run(4 * size)) / calls(lambda: run(size))
