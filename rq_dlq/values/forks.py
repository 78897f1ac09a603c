"""Detects forks: a forked child must not use its parent's sockets, counters and deliveries.

The kernel empties a page of memory in each child (MADV_WIPEONFORK), so no send and no call asks the system
which process it is. A hook of Python's forks costs less, but uWSGI forks in C and runs no hooks: its workers
would send different messages under the same ids, which are lost, and share sockets. Where the kernel cannot
do this, the system is asked. If a handler forks and the child returns from the handler, the child ends there:
a worker's thread must not continue in two processes.
"""

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
    """A function that returns the number of this process.

    Each send and each call of a handler uses it, so it avoids a system call. A hook for Python's forks would
    miss forks outside Python, such as uWSGI's. The kernel misses none: it clears a page of memory in each
    child. Where it cannot, each call is a system call. An emulator may accept the request without effect, so
    there is also a hook.
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
            page[0] = 1  # last, since another thread may read at the same time
        return number

    return noted


this_process = _noted()
