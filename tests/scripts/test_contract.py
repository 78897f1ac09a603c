"""What every module of the Lua, and every verb in it, has to keep to, read from its text."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

from rq_dlq import _keys, core
from rq_dlq._keys import MoreKeys, QueueKeys
from rq_dlq._scripts import Joined
from rq_dlq._scripts.joining import join
from rq_dlq._scripts.verb import PAIRS
from rq_dlq.core.managing.calls import NO_END
from rq_dlq.core.pages.calls import END, START
from rq_dlq.core.redrive.calls import Offer
from rq_dlq.core.results.calls import Meant
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.steps.call import Sender
from rq_dlq.values.failure import Cause
from rq_dlq.values.wanted import ALL
from tests.joined_lua import texts
from tests.tables import each_row
from tests.verbs import VERBS

JOINED = Joined()
NAMES = JOINED.names()
TEXTS = texts()

# What is read as JSON: a setting, and what a client sends along: its policy, who it is, why something failed,
# what a redrive is asked for, what an operator does; and what is special about a lane.
SETTINGS = {
    "act", "q.set.dead_letter", "text", "detail.error:match('^[^\\t]*')", "'[' .. consumer .. ']'",
    "cells[1] or ''", "record", "lanes[n + 1]",
}  # fmt: skip
# Keys beside those of every queue: the map of policies, and what remembers a session, a job, a stream.
NO_QUEUES = set(_keys.OTHERS)

# What `unpack` may be used on, and why it is bounded: Redis' Lua fails at 8,000 values, after earlier writes.
BOUNDED = {
    "ids", "records", "stated", "deadlines", "names",  # the items of a call: steps.CHUNK
    "batch.states", "batch.blocked",  # twice the items of a call
    "over", "old",  # twice the items of a call
    "came",  # seats of a call's messages
    "names, 2",  # of lanes whose slots a claim ends: Bounds.LANES
    "ends", "left",  # messages that come back with a call's: twice its items
    "passes",  # of a call's messages, or of a dependency
    "ARGV, first + 1, first + asked",  # the ids of a call: steps.CHUNK
    "entries, at, stop",  # of a job's lists, at once
    "ids, first, last", "short",  # of the records of a claim, or of a scan
    "rows, 1, n - 1", "c.ids, 1, n - 1", "c.texts, 1, n - 1",  # a part of them
    "rows", "c.ids", "taken", "lines", "mortal",  # what a claim takes: steps.MOST
    "gone, at, stop",  # Results.keep: what it forgets at once
    "members", "moved", "blocked",  # what a claim promotes: steps.MOST and its STEPS
    "back", # what a step of a redrive moves: steps.CHANGED
    "tokens",  # of claims: PAGE
    "due", "of_keys",  # steps of Tend.tend
    "unset", "cells",  # the fields of a queue's settings, or of a redrive
    "keys",  # of a queue
}  # fmt: skip


def code(text: str) -> str:
    """The text without its comments."""
    return re.sub(r"--.*", "", text)


def bodies() -> dict[str, str]:
    """The lines of each verb, without those that bind its arguments."""
    verb = re.compile(r"^function Verbs\.(\w+)\(.*\n((?:.*\n)*?)end$", re.MULTILINE)
    binding = re.compile(r"^ +local [\w, ]+ = .*ARGV\[\d+\].*$", re.MULTILINE)
    found = verb.findall("\n".join(TEXTS.values()))
    return {name: binding.sub("", code(text)) for name, text in found}


BODIES = bodies()


@each_row("name", NAMES)
def test_every_key_has_a_name_that_exists_and_they_are_in_one_order(name: str) -> None:
    script = JOINED[name]
    order = [*_keys.NAMES, *(f"to_{key}" for key in _keys.NAMES), *_keys.OTHERS]
    for keys in (script.keys, script.families):
        assert set(keys) <= set(order)
        assert list(keys) == sorted(set(keys), key=order.index)


@each_row("both", PAIRS)
def test_a_call_of_two_verbs_has_the_contracts_of_both(both: str) -> None:
    pair, first, second = JOINED[both], *(JOINED[name] for name in PAIRS[both])
    assert {*pair.keys} == {*first.keys, *second.keys}
    assert pair.args == (*second.args, *first.args)
    assert pair.items == first.items
    assert pair.commands == first.commands | second.commands
    assert (pair.drains, pair.reads) == (first.drains and second.drains, first.reads and second.reads)


@each_row("name", sorted({*NAMES} - {*PAIRS}))
def test_a_verb_says_what_its_items_are(name: str) -> None:
    assert bool(JOINED[name].items) == ("ARGV" in BODIES[name])


# What a key is called that is chosen among those of a queue, and a channel, named after one.
CHOSEN = {
    "index", "c.index", "key", "source", "other", "otherwise", "at", "Places.index(q",
    "delay > 0 and q.scheduled or q.ready",
}  # fmt: skip
CHANNEL = "q.results .. ':' .. id"


@each_row("module", TEXTS)
def test_every_call_is_a_literal_command_on_a_key(module: str) -> None:
    keys = {*_keys.NAMES, *_keys.OTHERS}
    for command, first in re.findall(r"redis\.p?call\(\s*([^,)]+)(?:,\s*([^,)]+))?", code(TEXTS[module])):
        assert re.fullmatch(r"'[A-Z]+'", command), f"{module}.lua calls {command}"
        key = re.fullmatch(r"(?:q|there)\.(\w+)", first.strip())
        if command == "'PUBLISH'":
            assert first == CHANNEL
        elif command != "'TIME'":
            assert first in CHOSEN or (key and key[1] in keys), f"{command} on {first}"


def test_unpack_is_used_on_what_is_bounded() -> None:
    assert {it for text in TEXTS.values() for it in re.findall(r"unpack\(([^)]*)\)", code(text))} == BOUNDED


@each_row("module", TEXTS)
def test_a_module_keeps_the_rules(module: str) -> None:
    text = TEXTS[module]
    body = code(text)
    assert "\t" not in text
    assert body.isascii(), "letters beyond ASCII outside of comments"
    # I11: one clock, read in one place; randomness is passed in.
    assert ("'TIME'" in body) == (module == "clock")
    assert not re.search(r"math\.random|os\.|\btime\(", body)
    # Payloads are not looked into: cjson is for a queue's settings, and what is special about a lane.
    reading, writing = "pcall(cjson.decode, text or '')", "cjson.encode(lane)"
    assert (reading in body) == (module == "values")
    assert (writing in body) == (module == "lanes")
    body = body.replace(reading, "").replace(writing, "")
    assert "cjson" not in body
    assert {json_of(rest) for rest in re.findall(r"(?<!function )Values\.json\((.*)", body)} <= SETTINGS
    # A reply that is an error carries no user data; ours are verdicts, never errors.
    # What the one writes stops nothing; the other goes on where a counter is damaged.
    assert ("redis.pcall(" in body) == (module in {"gathers", "outcomes", "renumber", "send", "results"})
    body = body.replace("redis.pcall(", "")
    if module in {"lanes", "renumber"}:  # fixed texts, for queues whose lanes are numbered otherwise
        body = re.sub(r"\berror\((?:OLD|wrong), 0\)", "", body)
    assert not re.search(r"error_reply|\berror\(|\berr =|redis\.log|\bpcall\(", body)


def json_of(rest: str) -> str:
    """The argument, of the text behind the parenthesis that opens."""
    depth = 1
    for n, letter in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            return rest[:n]
    raise AssertionError(rest)


@each_row(
    "head",
    [
        "  local id, token = ARGV[1], ARGV[3]",
        "  local id = ARGV[2]",
        "  local delay, ttl = ARGV[2], ARGV[1]",
        "  local delay = ARGV[1]\n  -- items from ARGV[3]: id",
    ],
)
def test_the_arguments_of_a_verb_count_without_gaps(head: str) -> None:
    verb = f"function Verbs.ask(q, ARGV)\n{head}\nend\n"
    with pytest.raises(ValueError, match="ask binds"):
        join({**TEXTS, "settings": TEXTS["settings"] + verb})


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
    assert sorted([*CONSTRUCTORS, *PAIRS]) == NAMES


@each_row("name", CONSTRUCTORS)
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
    given |= {"mark": "n"}
    given |= {"queues": [QueueKeys("rq", "q")] * 2}
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
    if name == "result":
        given["meant"] = [Meant("id", 1)]
    if name == "restore":
        given["items"] = ["id", b"record", b"state", b"history"]
    call = CONSTRUCTORS[name](**{word: given.get(word, 1) for word in parameters})
    script = JOINED[name]
    assert call.verb == name
    assert set(call.args) == set(script.args)
    if VERBS[name].kind in {"send", "claim", "settle"}:  # so that nothing is put in order at run time
        assert tuple(call.args) == script.args
    if script.items:
        assert call.items
        assert len(call.items) % len(script.items) == 0 or script.families
    else:
        assert not call.items
    command = call.command(JOINED)
    names = [*script.keys, *script.families * len(call.families)]
    assert command[2] == len(names)
    assert list(command[3 : 3 + len(names)]) == [full_name(key) for key in names]


def full_name(key: str) -> str:
    if key.removeprefix("to_") in _keys.NAMES:
        return QueueKeys("rq", "to" if key.startswith("to_") else "q")[key.removeprefix("to_")]
    others = {"policies": "rq:policies", "sender": "rq:{q}:sender:n", "job": "rq:{q}:job:j"}
    others |= {"stream": "rq:{q}:stream:s", "redrive": "rq:{q}:redrive:j"}
    return {**others, "staged": "rq:{q}:stage:j:a.0.0"}.get(key, f"rq:{{q}}:{key}")


def test_a_wrong_name_is_an_error_before_anything_is_sent() -> None:
    script = JOINED["send"]
    right = {"number": 0, "delay": 0, "ttl": 0, "opening": ""}
    for wrong in ({"delay": 0}, {**right, "more": 0}, {"number": 0, "delay": 0, "tll": 0, "opening": ""}):
        with pytest.raises(TypeError, match=r"send takes number, delay, ttl"):
            script.arguments(wrong)
    assert script.arguments({"ttl": 3, "stays": 0, "opening": "o", "delay": 2, "number": 1}) == [
        1,
        2,
        3,
        "o",
        0,
    ]
