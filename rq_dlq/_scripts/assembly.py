"""Assembles a script and the fragments that it needs into one text.

A `needs` line is replaced by the fragments, each after those that it needs itself. Indentation separates
blocks. A block sees the fragments of the blocks around it and gets none twice; a block that works on another
queue sees only fragments without keys. The second copy of a fragment in a script has no comments,
since Redis also reads them. Keys are bound at the script's first `needs` line, in the order of
`_keys.py`; those of another queue, in the block that works on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf

from rq_dlq import _keys
from rq_dlq._scripts.fragments import Fragment, Needs, read
from rq_dlq._scripts.script import bound

_AT_ONCE = 5  # how many names a line binds
_KEYS_OF = "\0"  # marks the line where the keys of the following family are bound
_TO = "to_"
_ORDER = (*_keys.NAMES, *(_TO + key for key in _keys.NAMES), *_keys.OTHERS)


def assemble(name: str, text: str, library: Mapping[str, Fragment]) -> str:
    """Assemble a script from its file's name and text.

    Raises:
        ValueError: it does not begin with its `needs`; or a need does not exist, or is not bound.
    """
    _, script = read(name, text)
    needs = [line for line in script if isinstance(line, Needs)]
    if not needs or needs[0].indent or needs[0].family:
        raise ValueError(f"{name}.lua does not begin with the needs of the whole file")
    elsewhere = [one for line in needs if line.family for one in reversed(line.among(library))]
    shared = [one for other in elsewhere for one in (*other.before, other) if not one.has_keys]
    last = [needs[0], *(line for line in needs if line.names and not (line.indent or line.family))][-1]
    whole, several = _Assembly(library, needs[0], shared, last), list[Fragment]()
    whole.add(script, set(), "")
    while more := whole.repeated():
        several = [*more, *several]  # fragments needed by the others' blocks precede these
        whole = _Assembly(library, needs[0], shared, last, several)
        whole.add(script, set(), "")
    keys = whole.keys
    keys[""].update(_TO + key for key in keys[_TO])
    _check(f"{name}.lua needs keys that do not exist", set(chain(*keys.values())), _ORDER)
    _check(f"{name}.lua needs arguments that it does not bind", whole.args, bound(name, text)["ARGV"])
    ordered = {family: sorted(found, key=_ORDER.index) for family, found in keys.items()}
    return "\n".join(_with_bindings(whole.lines, ordered)) + "\n"


class _Assembly:
    """The lines of a script with their needs.

    Args:
        top: the first `needs` line.
        shared: fragments to add there as well, for blocks that work on other queues.
        last: the last `needs` line for the whole script.
        several: fragments to add there once for several blocks.

    Attributes:
        keys: the needed keys, by their family.
        args: the needed arguments.
        times: how often each fragment was added, for the script's own queue.
    """

    def __init__(
        self,
        library: Mapping[str, Fragment],
        top: Needs,
        shared: Sequence[Fragment],
        last: Needs,
        several: Sequence[Fragment] = (),
    ) -> None:
        self._library, self._top, self._shared = library, top, shared
        self._last, self._several = last, several
        self.lines, self.args = list[str](), set[str]()
        self.keys, self.times = defaultdict[str, set[str]](set), Counter[Fragment]()
        self._explained = set[Fragment]()  # that are there with their comments

    def add(self, part: Iterable[str | Needs], there: set[Fragment], family: str, indent: str = "") -> None:
        """Add lines; `there`: the fragments before them, for keys of this family."""
        blocks = [(0.0, there, family)]  # the blocks around the line: indentation, fragments, family
        for line in part:
            while blocks[-1][0] and _depth(line) < blocks[-1][0]:
                blocks.pop()
            if isinstance(line, str):
                self.lines.append(indent + line if line else "")
                continue
            wanted, inner = line.among(self._library), indent + line.indent
            outer, there, family = blocks[-1]
            there = {*there} if _depth(line) > outer else there
            if line.family or line is self._top:
                self.lines.append(f"{inner}{_KEYS_OF}{line.family}")
                family, there = line.family, {one for one in there if not one.has_keys}
                wanted += [] if family else self._shared  # here, so that the clock is read once
            if line is self._last:
                wanted = [*self._first(wanted), *self._several, *wanted]
            blocks.append((_depth(line), there, family))
            self.keys[family].update(line.keys)
            self.args.update(line.args)
            for one in wanted:
                if one not in there:
                    there.add(one)
                    self.times[one] += not family
                    lines = one.code if one in self._explained else one.lines
                    self._explained.add(one)
                    self.add(lines, there, family, inner)

    def repeated(self) -> list[Fragment]:
        """The fragments with `once` that are repeated, without those in blocks of another such fragment."""
        again = (one for one, times in self.times.items() if one.once and times > 1)
        found = [one for one in again if one not in self._several]
        inside = {one: self._reached([one]) - {one} for one in found}
        return [one for one in found if not any(one in others for others in inside.values())]

    def _first(self, wanted: Iterable[Fragment]) -> Iterator[Fragment]:
        """The fragments that both these and `several` need: for example, the clock is read once."""
        both = self._reached(self._several)
        for one in dict.fromkeys(before for each in wanted for before in (*each.before, each)):
            if one in both and self._reached([one]).isdisjoint(self._several):
                yield one

    def _reached(self, fragments: Iterable[Fragment]) -> set[Fragment]:
        """These fragments and all their needs, including those of their blocks."""
        found, more = set[Fragment](), [*fragments]
        while more:
            one = more.pop()
            if one not in found:
                found.add(one)
                needs = (line for line in one.lines if isinstance(line, Needs) and not line.family)
                more += (other for line in needs for other in line.among(self._library))
        return found


def _depth(line: str | Needs) -> float:
    """The indentation of a line; an empty line is part of any block."""
    if isinstance(line, Needs):
        return len(line.indent)
    return len(line) - len(line.lstrip()) if line else inf


def _check(wrong: str, needed: set[str], there: Iterable[str]) -> None:
    if missing := needed.difference(there):
        raise ValueError(f"{wrong}: {', '.join(sorted(missing))}")


def _with_bindings(lines: Iterable[str], keys: Mapping[str, list[str]]) -> Iterator[str]:
    """The lines, with the key bindings inserted."""
    for line in lines:
        indent, here, family = line.partition(_KEYS_OF)
        yield from (indent + binding for binding in _bindings(family, keys)) if here else (line,)


def _bindings(family: str, keys: Mapping[str, list[str]]) -> list[str]:
    """The lines that bind the keys of a family."""
    names, own = keys[family], len(keys[""])
    numbered = {key for word in keys.keys() - {"", _TO} for key in keys[word]}
    several = sorted(numbered, key=_ORDER.index)  # the keys of each of several queues
    lines = list[str]()
    if family == _TO:
        slots = [_TO + key for key in names]
    elif not family:
        slots = [f"KEYS[{n}]" for n in range(1, own + 1)]
    elif len(several) == 1:
        slots = [f"KEYS[{own} + {family}]"]
    else:
        lines = [f"local base = {own} + ({family} - 1) * {len(several)}"]
        slots = [f"KEYS[base + {several.index(key) + 1}]" for key in names]
    for at in range(0, len(names), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        lines.append(f"local {', '.join(names[some])} = {', '.join(slots[some])}")
    if several and not family:
        lines.append(f"-- families from KEYS[{own + 1}]: {', '.join(several)}")
    return lines
