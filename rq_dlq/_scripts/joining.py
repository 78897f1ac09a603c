"""Join the modules of `lua` into one text, and read the contract of each verb from it.

The text defines all functions of the broker. Its last lines register the verbs as Redis Functions or, where
it runs as a script, call the verb that is the last argument (`lua/README.md`). It has no comments and no
indentation, which a server would keep in memory; its lines are those of the modules, so `Library.place`
finds the line of a module from the number in an error.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rq_dlq import _keys
from rq_dlq._scripts.verb import PAIRS, Contract, Library

MODULES = (
    *("clock", "bounds", "reply", "values", "record", "state", "order", "queue", "register", "history"),
    *("audit", "leases", "results", "gathers", "outcomes", "policy", "groups", "places", "lanes", "renumber"),
    *("rates", "seats", "probes", "gates", "signs", "breaker", "narrow", "tend", "redrive", "judge"),
    *("upkeep", "choice", "transfer", "known", "again", "acks", "settle", "ttl", "length", "send", "resend"),
    *("choose", "deliver", "claim", "session", "batches", "jobs", "schedules", "redrives", "offers"),
    *("operate", "cancel", "restore", "browse", "reindex", "gathering", "settings"),
)
"""The modules in the order in which they are joined: what a module reads while it is loaded precedes it."""

# A statement in column 0, with the lines that belong to it; the comment before it is apart.
_STATEMENT = re.compile(r"^((?:--.*\n)*)((?!end\b)\w.*\n(?:(?:[ })]|end\b|(?=\n)).*\n)*)", re.MULTILINE)
_FUNCTION = re.compile(r"(?:local )?function ([\w.]+)\((.*)\)")
_LOCAL = re.compile(r"local ([\w, ]+?)(?: =|$)", re.MULTILINE)
# What is no name, or a field of something else, comes first, so that no name is found in it.
_NAME = re.compile(r"--.*|'(?:\\.|[^'\\\n])*'|[.:]\w+|([A-Za-z_][\w.]*(?:\(there\b)?)")
# `local id, token = ARGV[1], ARGV[2]` names the arguments; a comment, `-- items from ARGV[3]: id, token`,
# those of each item.
_ARGUMENTS = re.compile(r"\nlocal ([\w, ]+) = (.*ARGV\[\d+\].*)")
_ITEMS = re.compile(r"\n-- items from ARGV\[(\d+)\]: (.+)")
_SLOT, _ASIDE = re.compile(r"ARGV\[(\d+)\]"), re.compile(r" ?\([^)]*\)|;.*$")
_CALLED = re.compile(r"redis\.p?call\(\s*'(\w+)'")
_BEFORE, _BEHIND = re.compile(r"\n *(?:--.*)?"), re.compile(r" --[^'\"\n]*(?=\n)")
_HASH = "@" * 12  # in place of the hash in the text that is hashed
# Keys that most calls use. The others of a verb are bound when they are first asked for (lua/queue.lua).
_OFTEN = frozenset(
    {
        *("messages", "states", "ready", "scheduled", "expiring", "leases", "claims", "counters", "settings"),
        *("wake", "sender"),
    }
)
# Globals of the server, which never change. A library looks each up in two tables, 200 instructions a time.
# So the first call binds them: when it is loaded, they are not there yet.
GLOBALS = "redis, string, math, unpack, tonumber, ipairs, type, setmetatable"
_ORDER = (*_keys.NAMES, *_keys.OTHERS)
# Fields of a queue that are read when they are first asked for (lua/queue.lua).
_FIRST = frozenset({"now", "set", "rule", "breaker"})


def class_name(module: str) -> str:
    """The name of a module's table."""
    return module.capitalize()


_TABLES = frozenset(map(class_name, MODULES))


@dataclass(frozen=True, slots=True)
class Part:
    """A function of a module, or what it defines beside its functions.

    Attributes:
        text: with its last line; the comment before it is apart.
        calls: the names of other parts that it uses; with the role `there`, on the other queue.
        keys: the keys that it uses: of its queue, and of the other one.
    """

    name: str
    comment: str
    text: str
    calls: frozenset[tuple[str, str]]
    keys: frozenset[tuple[str, str]]
    commands: frozenset[str]

    @property
    def lines(self) -> list[str]:
        """Those that are not empty."""
        return [line for line in self.text.splitlines() if line]


def join(texts: Mapping[str, str]) -> Library:
    """Join the modules, by their names.

    Raises:
        ValueError: a module is missing, or a name is not defined.
    """
    if wrong := set(texts) ^ set(MODULES):
        raise ValueError(f"not the declared modules: {sorted(wrong)}")
    parts = {part.name: part for module in MODULES for part in parts_of(module, texts[module])}
    verbs = [(_contract(part, parts), part) for name, part in parts.items() if name.startswith("Verbs.")]
    contracts = {verb.name: verb for verb, _ in verbs}
    pairs = {both: (contracts[one], contracts[other]) for both, (one, other) in PAIRS.items()}
    contracts |= {both: _pair(both, *pair) for both, pair in pairs.items()}
    used = {name.partition(".")[0] for name in parts if "." in name}
    tables = [name for name in map(class_name, MODULES) if name in used]
    lines = [
        f"local {', '.join(tables)} = {', '.join(['{}'] * len(tables))}",
        "local Verbs, Entries, Rare, register = {}, {}, {}, redis.register_function",
        f"local function globals() return {GLOBALS} end",
        f"local {GLOBALS}",
    ]
    for module in MODULES:
        lines += [f"do -- {module}.lua", _lean(texts[module]), "end"]
    for verb, part in verbs:
        lines += _entry(verb, _parameters(part)[-1])
    for both, pair in pairs.items():
        lines += _entry_of_pair(contracts[both], *pair)
    lines += ["if register then", *map(_registration, contracts.values()), "else"]
    lines += ["return Entries[table.remove(ARGV)](KEYS, ARGV)", "end"]
    text = "\n".join(lines) + "\n"
    name = "rq_" + hashlib.sha256(text.encode()).hexdigest()[:12]
    return Library(name, text.replace("rq_" + _HASH, name), contracts)


def _lean(text: str) -> str:
    """A text without comments and indentation, but with all lines."""
    return _BEHIND.sub("", _BEFORE.sub("\n", f"\n{text.rstrip()}\n"))[1:-1]


def parts_of(module: str, text: str) -> Iterator[Part]:
    """The functions and locals of a module."""
    found = [(comment, block, _given(block)) for comment, block in _STATEMENT.findall(text + "\n")]
    own = {name for _, _, given in found for name in given if "." not in name}
    for comment, block, given in found:
        calls, keys = set[tuple[str, str]](), set[tuple[str, str]]()
        whole: str
        for whole in {*_NAME.findall(block)}:
            called, _, other = whole.partition("(")
            name, _, rest = called.partition(".")
            field = rest.partition(".")[0]
            role = "there" if name == "there" or other else ""
            if name in _TABLES and field:
                calls.add((f"{name}.{field}", role))
            elif name in own and not field:
                calls.add((f"{module}:{name}", role))
            elif name in {"q", "there"} and field in _FIRST:
                calls.add((f"queue:{field}", role))
            elif name in {"q", "there"} and field in _ORDER:
                keys.add((field, role))
        commands = frozenset(_CALLED.findall(block))
        for name in given:
            full = name if "." in name else f"{module}:{name}"
            yield Part(full, comment, block, frozenset(calls) - {(full, "")}, frozenset(keys), commands)


def _given(block: str) -> list[str]:
    """The names that a statement defines, from its first line."""
    if found := _FUNCTION.match(block):
        return [found[1]]
    if found := _LOCAL.match(block):
        return found[1].split(", ")
    return block.partition(" =")[0].split(", ")


def _parameters(verb: Part) -> list[str]:
    found = _FUNCTION.match(verb.text)
    return found[2].split(", ") if found else [""]


def _contract(verb: Part, parts: Mapping[str, Part]) -> Contract:
    """Read what a caller must know of a verb."""
    name = verb.name.removeprefix("Verbs.")
    text = re.sub(r"\n +", "\n", f"\n{verb.comment}{verb.text}")
    keys, commands = _reached(verb.name, parts)
    if "\n-- keys: all\n" in text:
        keys |= {(key, "") for key in _keys.NAMES}
    own = sorted((key for key, role in keys if not role), key=_ORDER.index)
    others = sorted((key for key, role in keys if role), key=_ORDER.index)
    several = _parameters(verb)[-1] == "queues"
    plain = [key for key in own if key in _keys.NAMES]
    rest = [key for key in own if key not in _keys.NAMES]
    to = [] if several else [f"to_{key}" for key in others]
    return Contract(
        name,
        (*plain, *to, *rest),
        *_arguments(name, text),
        tuple(others) if several else (),
        "\n-- drains\n" in text,
        "\n-- reads\n" in text,
        frozenset(command.encode() for command in commands - {"PUBLISH"}),
    )


def _arguments(name: str, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the arguments of a verb, and those of each of its items.

    Raises:
        ValueError: they are not bound to ARGV[1], ARGV[2], … in this order.
    """
    args, slots, items = list[str](), list[str](), tuple[str, ...]()
    for names, values in _ARGUMENTS.findall(text):
        args += names.split(", ")
        slots += _SLOT.findall(values)
    wanted = len(args)
    if found := _ITEMS.search(text):
        wanted, items = wanted + 1, tuple(_ASIDE.sub("", found[2]).split(", "))
        slots.append(found[1])
    if slots != [str(number) for number in range(1, wanted + 1)]:
        raise ValueError(f"{name} binds {', '.join((*args, *items))} to ARGV {', '.join(slots)}")
    return tuple(args), items


def _reached(name: str, parts: Mapping[str, Part]) -> tuple[set[tuple[str, str]], set[str]]:
    """The keys and the commands of all functions that a function can reach.

    Raises:
        ValueError: one of them does not exist.
    """
    keys, commands, seen, more = set[tuple[str, str]](), set[str](), {(name, "")}, [(name, "")]
    while more:
        at, role = more.pop()
        if at not in parts:
            raise ValueError(f"{at} is not defined")
        part = parts[at]
        commands |= part.commands
        if role:
            keys |= {(key, role) for key, _ in part.keys}
            new = {(call, role) for call, _ in part.calls} - seen
        else:
            keys |= part.keys
            new = {*part.calls} - seen
        seen |= new
        more += new
    return keys, commands


def _pair(both: str, first: Contract, second: Contract) -> Contract:
    """The contract of two verbs in one call. The arguments of the second precede those of the first."""
    keys = {*first.keys, *second.keys}
    return Contract(
        both,
        tuple(key for key in _ORDER if key in keys),
        (*second.args, *first.args),
        first.items,
        (),
        first.drains and second.drains,
        first.reads and second.reads,
        first.commands | second.commands,
    )


def _entry_of_pair(both: Contract, first: Contract, second: Contract) -> Iterator[str]:
    """The lines that call both verbs, and return the replies of both."""
    yield from _head(both)
    yield f"local reply = Verbs.{first.name}(q, {{ unpack(ARGV, {len(second.args) + 1}) }})"
    yield f"return {{ reply, Verbs.{second.name}({_queue_of(both)}, ARGV) }}"
    yield "end"


def _head(verb: Contract) -> Iterator[str]:
    """The first lines of an entry, which bind the keys of a verb by name."""
    rare = (f"{key} = {verb.keys.index(key) + 1}" for key in _own(verb) if key not in _OFTEN)
    yield f"Rare.{verb.name} = {{ {', '.join(rare)} }}"
    yield f"function Entries.{verb.name}(KEYS, ARGV)"
    yield f"if not redis then {GLOBALS} = globals() end"
    yield f"local q = {_queue_of(verb)}"


def _own(verb: Contract) -> list[str]:
    return [key for key in verb.keys if not key.startswith("to_")]


def _queue_of(verb: Contract) -> str:
    """The queue of a call."""
    often = _bound((key for key in _own(verb) if key in _OFTEN), verb.keys).removeprefix("{ ")
    return f"setmetatable({{ KEYS = KEYS, rare = Rare.{verb.name}, {often}, Queue.MEMORY)"


def _entry(verb: Contract, last: str) -> Iterator[str]:
    """The lines that bind the keys of a verb by name; `last`: its last parameter."""
    yield from _head(verb)
    more = ""
    if last == "there":
        to = [key for key in verb.keys if key.startswith("to_")]
        yield f"local there = Queue.beside(q, {_bound(to, verb.keys)})"
        more = ", there"
    elif last == "queues":
        families = ", ".join(f"{key} = KEYS[at + {n}]" for n, key in enumerate(verb.families, 1))
        yield "local queues = {}"
        yield f"for at = {len(verb.keys)}, #KEYS - 1, {len(verb.families)} do"
        yield f"queues[#queues + 1] = Queue.beside(q, {{ {families} }})"
        yield "end"
        more = ", queues"
    elif last == "KEYS":
        more = ", KEYS"
    yield f"return Verbs.{verb.name}(q, ARGV{more})"
    yield "end"


def _bound(some: Iterable[str], keys: tuple[str, ...]) -> str:
    """A table of keys by their names."""
    cells = (f"{key.removeprefix('to_')} = KEYS[{keys.index(key) + 1}]" for key in some)
    return f"{{ {', '.join(cells)} }}"


def _registration(verb: Contract) -> str:
    """The line that registers a verb as a Redis Function."""
    flags = f"'{verb.flag}'" if verb.flag else ""
    name = f"rq_{_HASH}_{verb.name}"
    return f"register({{ function_name = '{name}', callback = Entries.{verb.name}, flags = {{ {flags} }} }})"
