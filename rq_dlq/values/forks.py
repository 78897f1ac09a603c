"""Which process this is: a forked child leaves its parent's sockets, numbers and deliveries alone."""

from __future__ import annotations

import os


class Process:
    """This process; a forked child is another one.

    Attributes:
        number: of it. Each send and each call of a handler looks at it, so it is not asked of the system
            each time.
    """

    number = os.getpid()

    @classmethod
    def begin(cls) -> None:
        """A fork has made this one."""
        cls.number = os.getpid()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=Process.begin)
