"""How busy a server and its clients are, over a while."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil

from tests.servers.counts import verbs_run


@dataclass(frozen=True)
class Load:
    """What a while has cost.

    Attributes:
        scripts: that the server ran, a second.
        server: the share of a core that it used.
        clients: the share of a core that all clients together used.
    """

    scripts: float
    server: float
    clients: float


def load(raw: Any, seconds: float, clients: Iterable[int] = ()) -> Load:
    """Look on for so long, and touch nothing.

    Args:
        clients: the ids of processes.
    """
    processes = [psutil.Process(pid) for pid in clients]
    began, before = time.monotonic(), _used(raw, processes)
    time.sleep(seconds)
    took, after = time.monotonic() - began, _used(raw, processes)
    return Load(*((now - then) / took for now, then in zip(after, before, strict=True)))


def _used(raw: Any, processes: Iterable[psutil.Process]) -> tuple[float, float, float]:
    cpu = raw.info("cpu")
    spent = (process.cpu_times() for process in processes)
    return (
        verbs_run(raw),
        cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        sum(times.user + times.system for times in spent),
    )
