"""Which messages there are in a search, and which verbs meet there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.model.interleavings.reduced import TICK, Reduction
from tests.model.interleavings.replies import WORKERS
from tests.model.interleavings.rules import DISCARDING, KEPT, RETIRING

STAMPS = {"send", "commit", "redrive", "redrive the oldest"}
GRAVES = {"redrive the oldest", "claim the dead", "retire"}


@dataclass(frozen=True)
class Scope:
    """Which messages there are, and what can be done to them; time passes, too.

    Attributes:
        messages: how many there are at first; more than these are never there at the same time.
        times: of the first of them, delay and time to live, milliseconds; 0: none.
        settings: of the queue.
    """

    name: str
    messages: int
    verbs: tuple[str, ...]
    times: tuple[tuple[int, int], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def sent(self) -> list[tuple[int, int]]:
        """Delay and time to live of each message."""
        return [*self.times, *[(0, 0)] * self.messages][: self.messages]

    @property
    def reduction(self) -> Reduction:
        """What may be forgotten."""
        graves = bool(GRAVES.intersection(self.verbs))
        kept = KEPT if "retire" in self.verbs else 0
        stamps = graves or bool(STAMPS.intersection(self.verbs))
        workers = bool(WORKERS.intersection(self.verbs))
        return Reduction(stamps=stamps, graves=graves, workers=workers, kept=kept)


FEW = {"max_in_flight": "2"}
SETTLE = ("ack", "nack", "nack at once", "poison", "release")
SCOPES = (
    Scope("deliveries", 3, ("claim", "claim again", *SETTLE, "sweep", "promote")),
    Scope(
        "times to live", 3, ("claim", *SETTLE, "extend", "sweep", "promote", "expire"),
        times=((0, 2 * TICK), (0, TICK), (TICK, 0)),
    ),
    Scope("workers", 3, ("claim", "claim as a worker", "claim past suspects", "ack", "sweep")),
    Scope("redrives", 3, ("claim", "poison", "redrive", "purge")),
    Scope("sessions", 3, ("claim", "claim three", "ack all", "release", "sweep")),
    Scope("retired", 3, ("claim", "poison", "expire now", "retire"), settings=RETIRING),
    Scope("discarding", 3, ("claim", "nack", "poison", "release", "sweep"), settings=DISCARDING),
    Scope(
        "few in flight", 3, ("claim", "claim three", "ack", "nack", "release", "sweep", "promote"),
        settings=FEW,
    ),
    Scope(
        "workers and operators", 2,
        ("claim as a worker", "claim again", "claim past suspects", "divide a claim", "ack a claim",
         "extend a claim", "nack", "release", "sweep", "promote"),
    ),
    Scope(
        "whole claims", 3,
        ("claim three", "claim again", "divide a claim", "ack a claim", "release", "sweep"),
    ),
    Scope("commits", 2, ("claim", "claim three", "commit", "release", "sweep")),
    Scope("sends", 2, ("claim", "ack", "nack", "send", "send later")),
    Scope(
        "dead letters", 2,
        ("claim", "claim again", *SETTLE, "extend", "sweep", "redrive", "redrive the oldest",
         "claim the dead"),
    ),
    Scope("by hand", 2, ("claim", "release", "purge", "dead-letter", "expire now", "redrive")),
    Scope(
        "priorities", 2, ("claim", "ack", "release", "prioritize", "deliver now", "promote"),
        times=((TICK, 0),),
    ),
    Scope("paused", 2, ("claim", "ack", "release", "send", "pause", "reset", "browse", "stats", "scan")),
)  # fmt: skip
LARGE = [scope for scope in SCOPES if scope.messages < 3]  # whose worlds are too many with three
ELSEWHERE = {
    **dict.fromkeys(("transfer", "move_staged"), "of two queues, or of a list beside one: T2 and T4"),
    **dict.fromkeys(("commit_job", "drop_staged"), "of lists that no world has: T2 and T4"),
    "pass_on": "it gives back as a nack with a delay does, by facts that no world has: T2, T4 and T39",
    "groups": "it only reads, and the index that it reads is in every world",
    "reindex": "for keys that were deleted: T2, T4 and T40",
    "renumber": "of data that 0.1.0 wrote: model/survived_mutants/test_renumber",
    "progress": "it writes a word that no script reads: T4, and behaviour/settling/test_progress",
    "result": "it changes nothing, and no world has a result: behaviour/results/test_results, and T43",
    "regroup": "for rows that are missing where a script was cut off: T2 and T4",
    **dict.fromkeys(("begin_batch", "note_batch"), "of no message: T2 and T4"),
    **dict.fromkeys(
        ("due", "schedule"), "of keys that no world has: T4, and behaviour/schedules/test_schedules"
    ),
    **dict.fromkeys(
        ("start_redrive", "step_redrive", "offer_redrive", "steer_redrive", "undo_redrive"),
        "of a list that no world has, else as redrive: T4, and behaviour/redrive/test_redrives",
    ),
    **dict.fromkeys(
        ("open_gather", "send_children", "close_gather", "carry_gather", "cancel_gather"),
        "of gathers, which no world has: model/test_gathers, and T47",
    ),
    "send_limited": "it does what send does, beside a limit, which no world has: T4, and T48",
    "mute": "of no message: T4, and behaviour/dead_letters/test_muting",
    **dict.fromkeys(
        ("cancel", "pause_lane", "probe_lane"), "of seats and gates, which no world has: K1, K2, K3 and K6"
    ),
    "limit_lane": "of seats, which no world has: K2 and K3",
    "resend": "of ids that are sent again, which scopes draw once: T2, T4, behaviour/sending/test_known_ids",
    "restore": "of messages from outside, dead from the start: T4, and cli/test_exports",
    "delete": "it ends the world: T4, and behaviour/queues/test_delete",
    **dict.fromkeys(("configure", "set_policy"), "a scope is one world of settings: T2 and T4"),
}
"""The verbs that no scope tries, and why."""
