"""One way through a scope, in a world that is never reduced: how what the search found is told, and tried."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from tests.model.interleavings.actions import FRESH, NEW
from tests.model.interleavings.reduced import NOW, TICK, Names
from tests.model.interleavings.search import Action, Search
from tests.model.interleavings.server import unpack
from tests.model.interleavings.world import PER_MS, Queue, read, write


class Walk:
    """Does what it is told by the names that the search has, under names and at times of its own.

    Attributes:
        world: what there is, as if it were NOW; by its own clock it is `late` milliseconds later.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.world, self.late = moved(search.begin(), -1), 1
        self._tokens = map("t{}".format, count())
        self._ids = map("m{}".format, count(len(self.world.messages)))

    def reduced(self) -> tuple[Queue, Names]:
        """The world that the search has for this one, and the names there."""
        return self.search.scope.reduction(self.world, NOW)

    def do(self, action: Action) -> str:
        """Do it; how it reads.

        Raises:
            AssertionError: it broke a rule.
        """
        if action.verb == "tick":
            self.world, self.late = moved(self.world, -TICK), self.late + TICK
            return "time passes"
        known = {short: name for name, short in self.reduced()[1].items()}
        known |= {FRESH: next(self._tokens), NEW: next(self._ids)}
        action = action._replace(args=renamed(action.args, known))
        search, change = self.search, self.search.verbs[action.verb].put
        put = change(self.world, *action.args) if change else self.world
        there = search.server.put(NOW + self.late, write(moved(put, self.late)))
        (answers,) = search.server.run([search.trip(there, action)])
        told = [(reply, moved(read(unpack(cells)), -self.late)) for reply, cells in answers]
        search.check(action, put, told)
        self.world = told[0][1]
        return " ".join(map(str, (action.verb, *action.args)))


def retold(search: Search, way: list[Action]) -> str:
    """A way, a step a line, in a world of its own; where it ends, what is wrong there."""
    walk, lines = Walk(search), list[str]()
    for action in way:
        try:
            lines.append(walk.do(action))
        except AssertionError as error:
            lines.append(f"{action.verb}: {error}")
    return "\n".join(lines)


def moved(queue: Queue, by: int) -> Queue:
    """The same, so many milliseconds later."""
    messages = {
        name: message._replace(
            birth=message.birth + by * PER_MS,
            due=message.due + by,
            expires=None if message.expires is None else message.expires + by,
        )
        for name, message in queue.messages.items()
    }
    claims = {token: claim._replace(until=claim.until + by) for token, claim in queue.claims.items()}
    return replace(queue, messages=messages, claims=claims, last=queue.last + by * PER_MS)


def renamed(value: Any, names: Names) -> Any:
    """The same with other names."""
    if isinstance(value, tuple):
        return tuple(renamed(one, names) for one in value)
    return names.get(value, value) if isinstance(value, str) else value
