"""Which process this is: a forked child leaves its parent's sockets, numbers and deliveries alone."""

from __future__ import annotations

import mmap
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WIPE_ON_FORK = 18  # MADV_WIPEONFORK (Linux 4.14), for which `mmap` has no name


def _noted() -> Callable[[], int]:
    """A function that knows the number of this process.

    Each send and each call of a handler looks at it, so it is not asked of the system each time. A hook of
    Python's forks would miss those that Python does not make, as uWSGI's. The kernel misses none: it empties
    a page of memory in each child. Where it cannot, the system is asked. An emulator may accept the order and
    not carry it out, so there is a hook as well.
    """
    if sys.platform != "linux":
        return os.getpid
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(WIPE_ON_FORK)
    except OSError:
        return os.getpid
    os.register_at_fork(after_in_child=partial(page.__setitem__, 0, 0))
    number = 0

    def noted() -> int:
        nonlocal number
        if not page[0]:
            number = os.getpid()
            page[0] = 1  # after it, since another thread may look meanwhile
        return number

    return noted


this_process = _noted()
