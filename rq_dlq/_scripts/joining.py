"""Join the modules of `lua/broker` into one text, and read the contract of each verb from it.

The text defines all functions of the broker. Its last lines register the verbs as Redis Functions or, where
it runs as a script, call the verb that is the last argument (`lua/broker/NOTES.md`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rq_dlq import _keys
from rq_dlq._scripts.script import bound, rest_of

MODULES = (
    *("clock", "values", "record", "state", "order", "queue", "register", "history", "audit", "leases"),
    *("results", "outcomes", "policy", "groups", "places", "lanes", "slots", "seats", "calls"),
    *("probes", "gates", "signs", "breaker", "narrow", "tend", "pace", "redrive", "judge", "sweep"),
    *("upkeep", "plans", "choice", "transfer", "acks", "settle", "send", "choose", "deliver", "claim"),
    *("session", "batches", "jobs", "schedules", "redrives", "offers", "operate", "cancel", "restore"),
    *("browse", "reindex", "settings"),
)
"""The modules in the order in which they are joined: what a module reads while it is loaded precedes it."""

_FUNCTION = re.compile(r"^(?:local )?function ([\w.]+)\((.*)\)")
_LOCAL = re.compile(r"^local ([\w, ]+?)(?: =|$)")
_VERB = re.compile(r"^function Verbs\.(\w+)\((.*)\)")
_COMMENT = re.compile(r"--[^\n]*")
_STRING = re.compile(r"'(?:\\.|[^'\\\n])*'")
_NAME = re.compile(r"(?<![\w.:])([A-Za-z_]\w*)(?:\.(\w+))?(\(there\b)?")
_CALLED = re.compile(r"redis\.p?call\(\s*'(\w+)'")
_HASH = "@" * 12  # in place of the hash in the text that is hashed
_ORDER = (*_keys.NAMES, *_keys.OTHERS)
# What reads a field of a queue when it is first asked for (lua/broker/queue.lua).
_READERS = {
    "now": "Clock.read",
    "set": "queue:settings_of",
    "rule": "queue:settings_of",
    "breaker": "queue:settings_of",
}


def class_name(module: str) -> str:
    """The name of a module's table."""
    return module.capitalize()


_TABLES = frozenset(map(class_name, MODULES))


@dataclass(frozen=True)
class Part:
    """A function of a module, or what it defines beside its functions.

    Attributes:
        calls: the names of other parts that it uses; with the role `there`, on the other queue.
        keys: the keys that it uses: of its queue, and of the other one.
    """

    name: str
    lines: tuple[str, ...]
    calls: frozenset[tuple[str, str]]
    keys: frozenset[tuple[str, str]]
    commands: frozenset[str]


@dataclass(frozen=True)
class Contract:
    """What a caller must know of a verb; the attributes are those of a `Script`."""

    name: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    items: tuple[str, ...]
    families: tuple[str, ...]
    drains: bool
    reads: bool
    commands: frozenset[bytes]


@dataclass(frozen=True)
class Library:
    """The joined text.

    Attributes:
        name: of the library in Redis; the verbs are `NAME_VERB`.
        text: without its first line.
        verbs: their contracts.
    """

    name: str
    text: str
    verbs: Mapping[str, Contract]


def join(texts: Mapping[str, str]) -> Library:
    """Join the modules, by their names.

    Raises:
        ValueError: a module is missing, or a name is not defined.
    """
    if wrong := set(texts) ^ set(MODULES):
        raise ValueError(f"not the declared modules: {sorted(wrong)}")
    parts = {part.name: part for module in MODULES for part in _parts(module, texts[module])}
    verbs = {name: _contract(name, lines, parameters, parts) for name, lines, parameters in _verbs(texts)}
    used = {part.name.partition(".")[0] for part in parts.values() if "." in part.name}
    tables = [name for name in map(class_name, MODULES) if name in used]
    lines = [
        f"local {', '.join(tables)} = {', '.join(['{}'] * len(tables))}",
        "local Verbs, Entries = {}, {}",
    ]
    for module in MODULES:
        lines += [f"do -- {module}.lua", texts[module].rstrip(), "end"]
    lines += [line for verb in verbs.values() for line in _entry(verb, texts)]
    lines += ["if redis.register_function then", *(_registration(verb) for verb in verbs.values()), "else"]
    lines += ["  return Entries[table.remove(ARGV)](KEYS, ARGV)", "end"]
    text = "\n".join(lines) + "\n"
    name = "rq_" + hashlib.sha256(text.encode()).hexdigest()[:12]
    return Library(name, text.replace("rq_" + _HASH, name), verbs)


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """The statements of a module in column 0, each with its lines."""
    block: list[str] = []
    for line in lines:
        if line and not line.startswith((" ", "end", "}", ")", "--")):
            if block:
                yield block
            block = []
        if line and not line.startswith("--"):
            block.append(line)
    if block:
        yield block


def _parts(module: str, text: str) -> Iterator[Part]:
    """The functions and locals of a module."""
    blocks = [*_blocks(text.splitlines())]
    names = [_given(block[0]) for block in blocks]
    own = {name for given in names for name in given if "." not in name}
    for block, given in zip(blocks, names, strict=True):
        code = _STRING.sub("''", _COMMENT.sub("", "\n".join(block)))
        calls, keys = set[tuple[str, str]](), set[tuple[str, str]]()
        for name, field, other in _NAME.findall(code):
            role = "there" if name == "there" or other else ""
            if name in _TABLES and field:
                calls.add((f"{name}.{field}", role))
            elif name in own and not field:
                calls.add((f"{module}:{name}", role))
            elif name in {"q", "there"} and field in _READERS:
                calls.add((_READERS[field], role))
            elif name in {"q", "there"} and field in _ORDER:
                keys.add((field, role))
        commands = frozenset(_CALLED.findall("\n".join(block)))
        for name in given:
            full = name if "." in name else f"{module}:{name}"
            yield Part(full, tuple(block), frozenset(calls) - {(full, "")}, frozenset(keys), commands)


def _given(line: str) -> list[str]:
    """The names that a statement defines, from its first line."""
    if found := _FUNCTION.match(line):
        return [found[1]]
    if found := _LOCAL.match(line):
        return found[1].split(", ")
    return line.partition(" =")[0].split(", ")


def _verbs(texts: Mapping[str, str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """The verbs: name, lines with the comment before them, and parameters."""
    for module in MODULES:
        lines = texts[module].splitlines()
        for n, line in enumerate(lines):
            if found := _VERB.match(line):
                first = n
                while first and lines[first - 1].startswith("--"):
                    first -= 1
                last = lines.index("end", n)
                yield found[1], lines[first : last + 1], found[2].split(", ")


def _contract(name: str, lines: list[str], parameters: list[str], parts: Mapping[str, Part]) -> Contract:
    """Read what a caller must know of a verb."""
    text = "\n" + "\n".join(line.strip() for line in lines) + "\n"
    keys, commands = _reached(f"Verbs.{name}", parts)
    if "\n-- keys: all\n" in text:
        keys |= {(key, "") for key in _keys.NAMES}
    own = sorted((key for key, role in keys if not role), key=_ORDER.index)
    others = sorted((key for key, role in keys if role), key=_ORDER.index)
    several = parameters[-1] == "queues"
    plain = [key for key in own if key in _keys.NAMES]
    rest = [key for key in own if key not in _keys.NAMES]
    to = [] if several else [f"to_{key}" for key in others]
    args = tuple(bound(name, text)["ARGV"])
    return Contract(
        name,
        (*plain, *to, *rest),
        args,
        rest_of(name, text, len(args))["items"],
        tuple(others) if several else (),
        "\n-- drains\n" in text,
        "\n-- reads\n" in text,
        frozenset(command.encode() for command in commands - {"PUBLISH"}),
    )


def _reached(name: str, parts: Mapping[str, Part]) -> tuple[set[tuple[str, str]], set[str]]:
    """The keys and the commands of all functions that a function can reach.

    Raises:
        ValueError: one of them does not exist.
    """
    keys, commands, seen, more = set[tuple[str, str]](), set[str](), set[tuple[str, str]](), [(name, "")]
    while more:
        at, role = more.pop()
        if (at, role) in seen:
            continue
        seen.add((at, role))
        if at not in parts:
            raise ValueError(f"{at} is not defined")
        part = parts[at]
        commands |= part.commands
        keys |= {(key, role or of) for key, of in part.keys}
        more += [(call, role or of) for call, of in part.calls]
    return keys, commands


def _entry(verb: Contract, texts: Mapping[str, str]) -> Iterator[str]:
    """The lines that bind the keys of a verb by name."""
    parameters = next(parameters for name, _, parameters in _verbs(texts) if name == verb.name)
    own = [key for key in verb.keys if not key.startswith("to_")]
    yield f"function Entries.{verb.name}(KEYS, ARGV)"
    yield f"  local q = Queue.of({_bound(own, verb.keys)})"
    more = ""
    if parameters[-1] == "there":
        to = [key for key in verb.keys if key.startswith("to_")]
        yield f"  local there = Queue.beside(q, {_bound(to, verb.keys)})"
        more = ", there"
    elif parameters[-1] == "queues":
        families = ", ".join(f"{key} = KEYS[at + {n}]" for n, key in enumerate(verb.families, 1))
        yield "  local queues = {}"
        yield f"  for at = {len(verb.keys)}, #KEYS - 1, {len(verb.families)} do"
        yield f"    queues[#queues + 1] = Queue.beside(q, {{ {families} }})"
        yield "  end"
        more = ", queues"
    elif parameters[-1] == "KEYS":
        more = ", KEYS"
    yield f"  return Verbs.{verb.name}(q, ARGV{more})"
    yield "end"


def _bound(some: Iterable[str], keys: tuple[str, ...]) -> str:
    """A table of keys by their names."""
    cells = (f"{key.removeprefix('to_')} = KEYS[{keys.index(key) + 1}]" for key in some)
    return f"{{ {', '.join(cells)} }}"


def _registration(verb: Contract) -> str:
    """The line that registers a verb as a Redis Function."""
    flags = "'no-writes'" if verb.reads else "'allow-oom'" if verb.drains else ""
    name = f"rq_{_HASH}_{verb.name}"
    return (
        f"  redis.register_function({{ function_name = '{name}', callback = Entries.{verb.name}, "
        f"flags = {{ {flags} }} }})"
    )
