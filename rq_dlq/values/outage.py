"""What is said of an outage: one sentence for all that people look at, and how much it matters.

`top`, the page, `doctor`, `explain`, `queue show`, `queue ls --dependencies` and the log say it.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from rq_dlq.values.readable import clock, many, paused_until, span
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from rq_dlq.values.dependency import DependencyStats

Level = Literal["bad", "warn", "calm"]
"""bad: messages die or stand still; warn: look at it; calm: it waits for a decision, or ends by itself."""

NOTHING: Final = "nothing to do"
MOST_OF_AN_ERROR: Final = 120  # characters
TRUSTED: Final = timedelta(minutes=10)  # lua/pause_lane.lua


def level_of(found: DependencyStats) -> Level | None:
    """How much the state of a dependency matters; None: it is up, and there is nothing to say."""
    if found.condition in {"down", "testing"}:
        return "bad"
    if found.condition == "paused" or found.charged_until is not None:
        return "warn"
    return "calm" if found.condition == "coming back" else None


def what(found: DependencyStats, at: datetime) -> str:
    """The state of a dependency, in words: "payments down since 21:11 UTC, 41 wait, the oldest 25s, …"."""
    return f"{found.dependency} {why(found, at)}"


def why(found: DependencyStats, at: datetime) -> str:
    """The same without its name, as after "it waits for payments: "."""
    waiting = found.waiting + found.behind
    wait = f"{waiting:,} wait"
    if found.behind:
        wait += f" ({found.behind:,} of them for their keys)"
    if found.oldest is not None:
        wait += f", the oldest {span(found.oldest)}"
    charged = (
        "" if found.charged_until is None else f"failures are charged until {clock(found.charged_until, at)}"
    )
    match found.condition:
        case "down":
            said = [f"down since {clock(found.since, at)}", wait, _next(found, at)]
        case "testing":
            said = [f"down since {clock(found.since, at)}", wait, "testing"]
        case "paused":
            said = [paused_until(found.until, at), wait]
        case _ if charged:
            said = ["closed by an operator", f"{waiting:,} come back" if waiting else "", charged]
        case "coming back":
            said = [f"back at {clock(found.ended, at)}", f"{waiting:,} come back"]
        case _:
            said = ["up", f"{waiting:,} wait" if waiting else ""]
    return ", ".join(filter(None, said))


def advice(found: DependencyStats, at: datetime) -> str:
    """What to do, with commands in backticks, and what else is known, such as the newest error."""
    options = f"{found.queue} --dependency {shlex.quote(found.dependency)}"
    match found.condition:
        case "down" | "testing":
            said = [f"{NOTHING}: it probes by itself"]
        case "paused":
            said = [f"`rq-dlq queue resume {options}` resumes it"]
        case _ if found.charged_until is not None:
            said = [f"until {clock(found.charged_until, at)} its messages die as without a breaker"]
        case _:
            said = [f"{NOTHING}: they follow as earlier ones succeed"]
    if found.hangs:
        said.append(f"{hanging(found, at)}: a timeout of the handler ends such calls")
    if found.died:
        said.append(f"{many(found.died, 'message')} died of it")
    if found.error and found.open:
        said.append(f"the newest error: {visible_line(found.error)[:MOST_OF_AN_ERROR]}")
    return "; ".join(said)


def line(found: DependencyStats, at: datetime) -> str:
    """Its state and what to do; empty: it is up, and there is nothing to say."""
    return f"{what(found, at)}; {advice(found, at)}" if level_of(found) else ""


def hanging(found: DependencyStats, at: datetime) -> str:
    """The call that was let through first and has not ended, in words; empty: there is none."""
    if not found.hangs:
        return ""
    one, *others = found.hangs
    where = f" at {one.consumer}" if one.consumer else ""
    more = f", and {many(len(others), 'other call')}" if others else ""
    return f"{one.id} hangs{where} since {clock(one.since, at)}{more}"


def if_closed(at: datetime) -> str:
    """What follows if an operator closes the breaker of a dependency that is down."""
    return f"failures will be charged until {clock(at + TRUSTED, at)}, and nothing opens it before"


def _next(found: DependencyStats, at: datetime) -> str:
    """When the next probe comes. A claim lets it in, so with no claim a probe that is due waits for one."""
    if found.next_probe is None:
        return ""
    seconds = (found.next_probe - at).total_seconds()
    return (
        f"next probe in {span(max(1.0, round(seconds)))}" if seconds > 0 else "next probe at the next claim"
    )
