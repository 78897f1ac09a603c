"""One way out of a queue, one into an index of messages and one off it, read from the modules."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rq_dlq._scripts.joining import MODULES, parts_of
from tests.joined_lua import texts
from tests.tables import each_row

TEXTS = {
    part.name: re.sub(r"--.*", "", part.text)
    for module in MODULES
    for part in parts_of(module, texts()[module])
}
# Keys in which no message is, and `expiring` and `groups`, whose rows say no more than states and `dead` do.
NOT_MESSAGES = {
    "acked_ids", "again", "alarm", "claims", "cleared", "committed", "counters", "expiring", "failures",
    "former_lanes", "former_seats", "gates", "gathers", "grouped", "groups", "leases", "policies", "redrives",
    "redriving", "reindexed", "result_times", "results", "runs", "schedules", "seats", "settings", "slots",
    "special", "staged", "streams", "strikes", "tended", "ticks", "wake",
}  # fmt: skip
COMMANDS = {
    "Places.gone": "HDEL|DEL|UNLINK",
    "Places.put": "ZADD|ZINCRBY",
    "Places.leave": "ZREM\\w*|ZPOP\\w*",
}
"""Of the one function that gives them for messages."""

HELPERS = {"Places.gone": "$-", "Places.put": r"Lanes\.add\((?!index)", "Places.leave": "$-"}
"""Functions that do so for their callers."""

EXCEPT = {
    ("Places.gone", "Verbs.delete", "messages"): "with all keys of the queue",
    ("Places.gone", "Verbs.mute", "muted"): "a group, no message",
    ("Places.gone", "signs:trim", "index"): "signs of a dependency that have ended, no message",
    ("Places.gone", "transfer:arrive", "to_history"): "a transfer was cut off: the message is not there yet",
    ("Places.gone", "again:put_back", "history"): "it is put back as new",
    ("Places.gone", "Verbs.restore", "history"): "a restore was cut off: the message is not there yet",
    ("Places.put", "send:write", "delay > 0 and scheduled or ready"): "new messages, in one command",
    ("Places.put", "send:write", "scheduled"): "new messages that wait for a seat, in one command",
    ("Places.put", "Upkeep.promote_due", "scheduled"): "due messages that wait for a seat, in one command",
    ("Places.put", "Upkeep.promote_due", "ready"): "due messages, in one command; their states stay",
    ("Places.leave", "Upkeep.promote_due", "scheduled"): "due messages, in one command",
    ("Places.leave", "Upkeep.expire_message", "ready"): "it stood there or where `leave` takes it off",
    ("Places.put", "Seats.block", "scheduled"): "it has no seat, or its lane is closed; its state stays",
    ("Places.leave", "Seats.block", "ready"): "it has no seat, or its lane is closed; its state stays",
    ("Places.put", "seats:admit_first", "ready"): "those that get a seat, in one command; their states stay",
    ("Places.leave", "seats:admit_first", "scheduled"): "those that get a seat, in one command",
    ("Places.put", "narrow:takes_over", "scheduled"): "it is put there to be compared with the blocked ones",
    ("Places.leave", "narrow:takes_over", "scheduled"): "it was put there to be compared with them",
    ("Places.put", "tend:seat_is_due", "ready"): "a verb was cut off: it has a seat; its state stays",
    ("Places.leave", "tend:seat_is_due", "scheduled"): "a verb was cut off: it has a seat",
    ("Places.put", "probes:write_passes", "ready"): "they get passes, in one command; their states stay",
    ("Places.put", "Probes.give_passes", "scheduled"): "it waits for a seat of its key; its state stays",
    ("Places.leave", "probes:write_passes", "scheduled"): "they get passes, in one command",
    ("Places.put", "renumber:move", "index"): "it stays in its lane, which gets another number",
    ("Places.put", "Lanes.add", "index"): "its callers are looked at",
    ("Places.leave", "Lanes.add", "index"): "a row that it has just added there",
    ("Places.put", "Lanes.make_due", "scheduled"): "blocked messages that are due by now, in one command",
    ("Places.put", "Places.put_off", "scheduled"): "a later form cannot be read",
    ("Places.put", "Places.put_off", "index"): "a later form cannot be read",
    ("Places.leave", "Places.put_off", "ready"): "a later form cannot be read",
    ("Places.leave", "deliver:write", "c.index"): "what a claim takes, in one command",
    ("Places.leave", "choice:visited", "index"): "a verb was cut off: the row is of no message",
    ("Places.leave", "groups:compare", "index"): "a verb was cut off: the row is of no message",
}
"""Which call passes by which door, and why."""


def past_the_doors(functions: Mapping[str, str]) -> set[tuple[str, str, str]]:
    """Door, function and key of each call that does elsewhere what is the door's."""
    return {
        (door, name, key)
        for door, commands in COMMANDS.items()
        for name, text in functions.items()
        if name != door
        for found in re.findall(rf"(?:redis\.p?call\(\s*'(?:{commands})',|{HELPERS[door]})\s*([^,)]+)", text)
        if (key := re.sub(r"\bthere\.", "to_", found.strip()).replace("q.", "")).removeprefix("to_")
        not in NOT_MESSAGES
    }


def test_messages_pass_the_doors() -> None:
    assert past_the_doors(TEXTS) == EXCEPT.keys()


@each_row(
    "name, planted, door",
    [
        ("Judge.bury", "redis.call('HDEL', q.messages, id)", "Places.gone"),
        ("Acks.remove", "redis.call('HDEL', q.history, unpack(ids))", "Places.gone"),
        ("judge:keep", "redis.call('ZADD', q.scheduled, state.due, member)", "Places.put"),
        ("Verbs.release", "redis.call('ZADD', index, 0, id)", "Places.put"),
        ("Verbs.deliver_now", "redis.call('ZREM', q.scheduled, member)", "Places.leave"),
    ],
)
def test_what_passes_by_a_door_is_found(name: str, planted: str, door: str) -> None:
    found = past_the_doors({**TEXTS, name: TEXTS[name] + planted}) - EXCEPT.keys()
    assert [(it[0], it[1]) for it in found] == [(door, name)]
