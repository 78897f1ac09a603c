"""Which verbs a server runs, how often and for how long, in whatever form it has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rq_dlq._scripts.verb import run_by
from rq_dlq.core.steps.call import Run

WORDS = (b"FCALL", b"FCALL_RO", b"EVALSHA", b"EVALSHA_RO")
"""The commands that run a verb."""
BY = tuple(f"cmdstat_{word.decode().lower()}" for word in WORDS)


def verb_of(command: Sequence[Any]) -> str:
    """The verb that a command runs, before it is sent; empty: none."""
    return command[0].verb if isinstance(command[0], Run) else ""


def verbs_of(command: Sequence[Any]) -> tuple[str, ...]:
    """The same, and both of a call that runs two."""
    verb = verb_of(command)
    return run_by(verb) if verb else ()


def verbs_run(raw: Any) -> int:
    """The calls of verbs since the counts of the server began."""
    return int(_sum(raw, "calls"))


def verbs_failed(raw: Any) -> int:
    """How many of these calls ended in an error."""
    return int(_sum(raw, "failed_calls"))


def microseconds(raw: Any) -> float:
    """The time that these calls took."""
    return float(_sum(raw, "usec"))


def _sum(raw: Any, what: str) -> float:
    stats = raw.info("commandstats")
    return float(sum(stats[name][what] for name in BY if name in stats))
