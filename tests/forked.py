"""Processes that are started in milliseconds, to be killed and frozen."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Self

import psutil

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    ["rq_dlq", "rq_dlq.worker.worker", "rq_dlq._redis.blocking.connections", "tests.servers"]
)


class ForkedProcesses:
    """Processes by their names. They are forked from one that has imported all there is; none outlives it."""

    def __init__(self) -> None:
        self.processes: dict[str, BaseProcess] = {}

    def start(self, name: str, act: Callable[..., None], *args: Any, **more: Any) -> None:
        """Have a process run a function of a module, which can find out its name."""
        process = _FORKING.Process(target=acting, args=(act, *args), kwargs=more, name=name, daemon=True)
        process.start()
        self.processes[name] = process

    def alive(self, name: str) -> bool:
        """Whether it runs; one that broke off is a fault of the harness.

        Raises:
            RuntimeError: it ended by an error.
        """
        process = self.processes[name]
        if process.exitcode:
            message = f"{name} broke off: what it said is on stderr"
            raise RuntimeError(message)
        return process.is_alive()

    def kill(self, name: str) -> None:
        """SIGKILL."""
        process = self.processes.pop(name)
        process.kill()
        process.join()
        process.close()

    def signal(self, name: str, number: int) -> None:
        """Send it a signal."""
        pid = self.processes[name].pid
        assert pid is not None
        os.kill(pid, number)

    def stands_still(self, name: str) -> bool:
        """Whether a signal has stopped it."""
        return psutil.Process(self.processes[name].pid).status() == psutil.STATUS_STOPPED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)


def acting(act: Callable[..., None], *args: Any, **more: Any) -> None:
    """Run it, but not longer than the process that wanted it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    act(*args, **more)
