"""What every script has to keep to, read from its text."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

from rq_dlq import _keys, core
from rq_dlq._keys import MoreKeys, QueueKeys
from rq_dlq._scripts import Script, Scripts, parse
from rq_dlq.core.managing.calls import NO_END
from rq_dlq.core.pages.calls import END, START
from rq_dlq.core.redrive.calls import Offer
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.steps.call import Sender
from rq_dlq.values.failure import Cause
from rq_dlq.values.wanted import ALL
from tests.assembled_lua import fragments
from tests.each import each

SCRIPTS = Scripts()
NAMES = SCRIPTS.names()
FILES = fragments()
MOST_LINES = 70

# What is read as JSON: a setting, and what a client sends along: its policy, who it is, why something failed,
# what a redrive is asked for, what an operator does; and what is special about a lane.
SETTINGS = (
    r"setting\('|text\)\.redelivery|text\) or false$|'\[' \.\. consumer|detail\.error|record\)$|act\)$"
    r"|cells\[1\] or ''\)"
)
# Keys beside those of every queue: the map of policies, and what remembers a session, a job, a stream.
NO_QUEUES = set(_keys.OTHERS)
# Verbs that work on all keys of a queue, also on those that they do not name.
WHOLE = {"delete"}

# What `unpack` may be used on, and why it is bounded: Redis' Lua fails at 8,000 values, after earlier writes.
BOUNDED = {
    "asked", "ids", "records", "places", "stated", "deadlines",  # the items of a call: steps.CHUNK
    "over",  # twice the items of a call
    "entries",  # of a job's lists, at once
    "page", "short",  # of the records of a claim, or of a scan
    "rows", "taken", "leased", "mortal", "gone",  # what a claim takes: steps.MOST
    "members", "moved",  # what a claim promotes: steps.MOST and its STEPS
    "bytes",  # of a number
    "names",  # of the fields of a redrive
    "tokens",  # of claims: PAGE
    "back",  # what a step of a redrive moves: steps.CHANGED
    "blocked",  # what a send or a promotion blocks: as places and moved
    "ended",  # the messages of a call that are done
    "given", "came", "new_seats",  # seats of a call's messages; let_in: MOST
    "held",  # tend_seats: SEATS
    "due",  # unblock: MOST
    "passes",  # of a call's messages, or of a dependency: open_breaker's MOST
    "unset", "cells",  # the fields of a queue's settings
    "keys",  # of a queue
    "ARGV, first + 1, first + asked",  # the ids of a call: steps.CHUNK
}  # fmt: skip


def code(text: str) -> str:
    """The text without its comments."""
    return re.sub(r"--.*", "", text)


def calls(text: str) -> list[tuple[str, str]]:
    """The command and the first argument of every redis.call and redis.pcall."""
    return re.findall(r"redis\.p?call\(\s*([^,)]+)(?:,\s*([^,)]+))?", code(text))


@each("name", NAMES)
def test_every_key_has_a_name_that_exists(name: str) -> None:
    script = SCRIPTS[name]
    keys = script.keys + script.families
    of_a_queue = {key.removeprefix("to_") for key in keys} - NO_QUEUES
    assert of_a_queue <= set(_keys.NAMES)
    assert len(set(keys)) == len(keys)


@each("name", NAMES)
def test_every_key_and_argument_is_used(name: str) -> None:
    script = SCRIPTS[name]
    body = re.sub(r"^local [\w, ]+ = .*(?:KEYS|ARGV)\[\d+\].*$", "", code(script.source), flags=re.MULTILINE)
    unused = [
        word
        for word in script.keys + script.args
        if name not in WHOLE and not re.search(rf"(?<![.\w']){word}\b(?! = )", body)
    ]
    assert not unused, f"{name}.lua binds what it does not use"
    shares = name in {"retire", "step_redrive", "undo_redrive"}  # a fragment with those that do
    takes_items = "ARGV" in body and not shares
    assert bool(script.items) == takes_items, f"{name}.lua and its items"


@each("name", NAMES)
def test_every_call_is_a_literal_command_on_a_bound_key(name: str) -> None:
    script = SCRIPTS[name]
    aliases = {
        "index",
        "source",
        "other",
        "at",
        "otherwise",
        "delay > 0 and scheduled or ready",
    }  # chosen among the bound keys
    bound = aliases.union(script.keys, script.families, there(script))
    for command, first in calls(script.source):
        assert re.fullmatch(r"'[A-Z]+'", command), f"{name}.lua calls {command}"
        if command == "'PUBLISH'":
            assert first == "results .. ':' .. id"  # a channel, named after the key
        elif command != "'TIME'":
            assert first.strip() in bound, f"{name}.lua: {command} on {first}"


def there(script: Script) -> set[str]:
    """The keys of the other queue, which fragments know by the names of the one; and of one of several."""
    return {key.removeprefix("to_") for key in script.keys} | {f"q.{key}" for key in script.families}


@each("name", NAMES)
def test_unpack_is_used_on_what_is_bounded(name: str) -> None:
    assert set(re.findall(r"unpack\(([^)]*)\)", code(SCRIPTS[name].source))) <= BOUNDED


@each("file", FILES)
def test_a_file_keeps_the_rules(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    body = code(text)
    assert text.count("\n") <= MOST_LINES, f"a file past {MOST_LINES} lines wants a new wall"
    assert "\t" not in text
    assert body.isascii(), "letters beyond ASCII outside of comments"
    # I11: one clock, read in one place; randomness is passed in.
    assert ("'TIME'" in body) == (file.name == "now.lua")
    assert not re.search(r"math\.random|os\.|\btime\(", body)
    # Payloads are not looked into: cjson is for a queue's settings, and what is special about a lane.
    reading, writing = "pcall(cjson.decode, text or '')", "cjson.encode(lane)"
    assert (reading in body) == (file.name == "read_json.lua")
    assert (writing in body) == (file.name == "write_lane.lua")
    body = body.replace(reading, "").replace(writing, "")
    assert "cjson" not in body
    assert all(re.match(SETTINGS, text) for text in re.findall(r"(?<!function )read_json\((.*)", body))
    # A reply that is an error carries no user data; ours are verdicts, never errors.
    # What the one writes stops nothing; the other goes on where a counter is damaged.
    assert ("redis.pcall(" in body) == (file.name in {"outcome.lua", "packed.lua", "kept.lua"})
    body = body.replace("redis.pcall(", "")
    assert not re.search(r"error_reply|\berror\(|\berr =|redis\.log|\bpcall\(", body)


@each(
    "header",
    [
        "local ready, leases = KEYS[1], KEYS[3]",
        "local ready = KEYS[2]",
        "local delay, ttl = ARGV[2], ARGV[1]",
        "local delay = ARGV[1]\n-- items from ARGV[3]: id",
    ],
)
def test_a_header_counts_without_gaps(header: str) -> None:
    with pytest.raises(ValueError, match=r"x\.lua"):
        parse("x", header + "\n")


# The callers

MODULES = [
    import_module(module.name)
    for module in walk_packages(core.__path__, f"{core.__name__}.")
    if module.name.endswith(".calls")
]
CONSTRUCTORS = {
    name: function
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if name in NAMES and str(inspect.signature(function).return_annotation).startswith("Call[")
}


def test_there_is_a_constructor_for_each_script() -> None:
    assert sorted(CONSTRUCTORS) == NAMES


@each("name", CONSTRUCTORS)
def test_a_constructor_passes_exactly_what_its_script_binds(name: str) -> None:
    given: dict[str, Any] = {
        "keys": QueueKeys("rq", "q"), "items": ["id", b"payload"], "held": [("id", "token")] * 2,
        "ids": ["id"], "cause": Cause("E", "no"), "policy": b"{}", "name": "q",
    }  # fmt: skip
    keys = given["keys"]
    given |= {
        "target": QueueKeys("rq", "to"),
        "settings": {},
        "namespace": "rq",
        "sender": Sender(MoreKeys(QueueKeys("rq", "q"), {"sender": "rq:{q}:sender:n"}), 1),
        "pattern": "#",
        "of": "key",
        "until": NO_END,
    }
    given |= {"token": "t", "tokens": ["t"] * 2, "to": "u", "query": "s", "field": "done"}
    given |= {"after": START, "upto": END, "wanted": ALL}
    given |= {"offers": [Offer("id", "1/0", b"record")]}
    given |= {"job": "j", "attempt": "a.0.0", "lengths": {"a.0.0": 2}}
    given |= {"results": {"id": b"result"}, "text": "half"}
    given |= {"takers": ["0a", "?"]}
    given |= {"declared_before": b"", "declared": b"", "entry": b"{}"}
    given["shares"] = [
        session_calls.Share(
            keys, [("id", "token")], [session_calls.Outgoing(0, 0, ("id", b"payload"))],
            staged=session_calls.Staged("j", "a.0.0", 1, 9),
        )
    ] * 2  # fmt: skip
    parameters = inspect.signature(CONSTRUCTORS[name]).parameters
    if name == "progress":
        given["held"] = ("id", "token")
    if name == "restore":
        given["items"] = ["id", b"record", b"state", b"history"]
    call = CONSTRUCTORS[name](**{word: given.get(word, 1) for word in parameters})
    script = SCRIPTS[name]
    assert call.script == name
    assert tuple(call.args) == script.args  # in that order, so that nothing is put in order at run time
    if script.items:
        assert call.items
        assert len(call.items) % len(script.items) == 0 or script.families
    else:
        assert not call.items
    command = call.command(SCRIPTS)
    names = [*script.keys, *script.families * len(call.families)]
    assert command[2] == len(names)
    assert list(command[3 : 3 + len(names)]) == [full_name(key) for key in names]


def full_name(key: str) -> str:
    if key.startswith("to_"):
        return f"rq:{{to}}:{key.removeprefix('to_')}"
    others = {"policies": "rq:policies", "sender": "rq:{q}:sender:n", "job": "rq:{q}:job:j"}
    others |= {"stream": "rq:{q}:stream:s", "redrive": "rq:{q}:redrive:j"}
    return {**others, "staged": "rq:{q}:stage:j:a.0.0"}.get(key, f"rq:{{q}}:{key}")


def test_a_wrong_name_is_an_error_before_anything_is_sent() -> None:
    script = SCRIPTS["send"]
    right = {"number": 0, "delay": 0, "ttl": 0, "opening": ""}
    for wrong in ({"delay": 0}, {**right, "more": 0}, {"number": 0, "delay": 0, "tll": 0, "opening": ""}):
        with pytest.raises(TypeError, match=r"send\.lua takes number, delay, ttl"):
            script.arguments(wrong)
    assert script.arguments({"ttl": 3, "opening": "o", "delay": 2, "number": 1}) == [1, 2, 3, "o"]
