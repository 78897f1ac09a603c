"""The reports of processes."""

from __future__ import annotations

from collections.abc import Sequence

from rq_dlq import _keys
from rq_dlq.core.steps.call import Command, read_hash


def processes(namespace: str) -> Command[dict[bytes, bytes]]:
    """The last reports of the processes that work on queues or maintain them."""
    return Command((b"HGETALL", _keys.processes(namespace)), read_hash)


def note_process(namespace: str, process: str, report: bytes) -> Command[int]:
    """Store the report of a process."""
    return Command((b"HSET", _keys.processes(namespace), process, report), int)


def forget_processes(namespace: str, processes: Sequence[bytes | str]) -> Command[int]:
    """Remove the reports of processes that have ended."""
    return Command((b"HDEL", _keys.processes(namespace), *processes), int)
