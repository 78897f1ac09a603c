"""One way out of a queue, one into an index of messages and one off it, read from the files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.assembled_lua import ROOT, fragments
from tests.each import each
from tests.scripts.test_contract import code

LUA = ROOT / "lua"
TEXTS = {
    file.relative_to(LUA).as_posix().removesuffix(".lua"): code(file.read_text(encoding="utf-8"))
    for file in fragments()
}
# Keys in which no message is, and `expiring` and `groups`, whose rows say no more than states and `dead` do.
NOT_MESSAGES = {
    "acked_ids", "alarm", "claims", "cleared", "committed", "counters", "expiring", "grouped", "groups",
    "gates", "lanes", "leases", "policies", "redrives", "redriving", "reindexed", "result_times", "results",
    "schedules", "seats", "settings", "slots", "staged", "strikes", "tended", "ticks", "wake",
}  # fmt: skip
COMMANDS = {"lib/gone": "HDEL|DEL|UNLINK", "lib/put": "ZADD|ZINCRBY", "lib/leave": "ZREM\\w*|ZPOP\\w*"}
"""Of the one file that gives them for messages."""

EXCEPT = {
    ("lib/gone", "delete", "messages"): "with all keys of the queue",
    ("lib/gone", "mute", "muted"): "a group, no message",
    ("lib/gone", "lib/hand_over", "to_history"): "a transfer was cut off: the message is not there yet",
    ("lib/gone", "restore", "history"): "a restore was cut off: the message is not there yet",
    ("lib/put", "lib/sent", "delay > 0 and scheduled or ready"): "new messages, in one command",
    ("lib/put", "lib/sent", "scheduled"): "new messages that wait for a seat, in one command",
    ("lib/put", "lib/promote", "scheduled"): "due messages that wait for a seat, in one command",
    ("lib/put", "lib/block", "scheduled"): "it has no seat, or one too many; its state stays",
    ("lib/leave", "lib/block", "ready"): "it has no seat, or one too many; its state stays",
    ("lib/put", "lib/takes_over", "scheduled"): "it is put there to be compared with the blocked ones",
    ("lib/leave", "lib/takes_over", "scheduled"): "it was put there to be compared with the blocked ones",
    ("lib/put", "lib/heads_in", "ready"): "those that get a seat, in one command; their states stay",
    ("lib/leave", "lib/heads_in", "scheduled"): "those that get a seat, in one command",
    ("lib/put", "lib/seat_is_due", "ready"): "a script was cut off: it has a seat; its state stays",
    ("lib/leave", "lib/seat_is_due", "scheduled"): "a script was cut off: it has a seat",
    ("lib/put", "lib/let_through", "ready"): "it gets a pass; its state stays",
    ("lib/put", "lib/let_through", "scheduled"): "it waits for a seat of its key; its state stays",
    ("lib/leave", "lib/let_through", "scheduled"): "it gets a pass",
    ("lib/put", "lib/past_gates", "scheduled"): "its lane is closed; its state stays",
    ("lib/leave", "lib/past_gates", "ready"): "its lane is closed; its state stays",
    ("lib/put", "lib/reopen", "scheduled"): "blocked messages that are due by now, in one command",
    ("lib/put", "lib/unblock", "scheduled"): "blocked messages that are due by now, in one command",
    ("lib/put", "lib/promote", "ready"): "due messages, in one command; their states stay",
    ("lib/put", "lib/put_off", "scheduled"): "a later form cannot be read",
    ("lib/put", "lib/put_off", "index"): "a later form cannot be read",
    ("lib/leave", "lib/put_off", "ready"): "a later form cannot be read",
    ("lib/leave", "lib/promote", "scheduled"): "due messages, in one command",
    ("lib/leave", "lib/chosen", "source"): "what a claim takes, in one command",
    ("lib/leave", "lib/expire_message", "ready"): "it stood there or where `leave` takes it off",
    ("lib/leave", "lib/each_chosen", "index"): "a script was cut off: the row is of no message",
    ("lib/leave", "regroup", "index"): "a script was cut off: the row is of no message",
}
"""Which call passes by which door, and why."""


def past_the_doors(texts: Mapping[str, str]) -> set[tuple[str, str, str]]:
    """Door, file and key of each call that does elsewhere what is the door's."""
    return {
        (door, name, key.strip())
        for door, commands in COMMANDS.items()
        for name, text in texts.items()
        if name != door
        for key in re.findall(rf"redis\.p?call\(\s*'(?:{commands})',\s*([^,)]+)", text)
        if key.strip() not in NOT_MESSAGES
    }


def test_messages_pass_the_doors() -> None:
    assert past_the_doors(TEXTS) == EXCEPT.keys()


@each(
    "name, planted, door",
    [
        ("lib/bury", "redis.call('HDEL', messages, id)", "lib/gone"),
        ("lib/acked", "redis.call('HDEL', history, unpack(ids))", "lib/gone"),
        ("lib/judge", "redis.call('ZADD', scheduled, state.due, member)", "lib/put"),
        ("release", "redis.call('ZADD', index, 0, id)", "lib/put"),
        ("deliver_now", "redis.call('ZREM', scheduled, member)", "lib/leave"),
    ],
)
def test_what_passes_by_a_door_is_found(name: str, planted: str, door: str) -> None:
    found = past_the_doors({**TEXTS, name: TEXTS[name] + planted}) - EXCEPT.keys()
    assert [(it[0], it[1]) for it in found] == [(door, name)]
