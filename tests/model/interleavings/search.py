"""The search: breadth first, so what it finds is the shortest way to a violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from rq_dlq._scripts import Joined
from rq_dlq.core.steps.call import Call
from tests.conftest import MOVED_CLOCK, Clock
from tests.model.driver import Driver, fitting
from tests.model.interleavings.reduced import NOW, TICK
from tests.model.interleavings.replies import check_again, check_reply
from tests.model.interleavings.rules import Step, check
from tests.model.interleavings.scopes import Scope
from tests.model.interleavings.server import GET, KEYS, Server, Trip, unpack
from tests.model.interleavings.verbs import POLICY, verbs
from tests.model.interleavings.world import Queue, read, write
from tests.verbs import Again

AT_ONCE = 128  # actions in one round trip


class Action(NamedTuple):
    """A verb and what it is done with; refused: it must change nothing."""

    verb: str
    args: tuple[Any, ...] = ()
    refused: bool = False


class Violation(AssertionError):  # noqa: N818 - the word for it
    """A rule is broken.

    Attributes:
        way: the shortest way to it.
    """

    def __init__(self, rule: str, way: list[Action]) -> None:
        super().__init__(rule)
        self.way = way


@dataclass
class Search:
    """Every world that a scope can come to.

    Attributes:
        ways: each world, and from where and by which action it was first reached.
    """

    raw: Any
    scope: Scope
    scripts: Joined = MOVED_CLOCK
    transitions: int = 0
    worlds: list[Queue] = field(default_factory=list)
    ways: list[tuple[int, Action]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = Driver(self.raw, POLICY, self.scripts)
        self._fitting = fitting(self.raw, self.scripts)
        self.server = Server(self.raw, self._fitting)
        every = verbs(self.queue, self.scope.messages)
        self.verbs = {name: every[name] for name in self.scope.verbs}
        self._numbers: dict[Any, int] = {}
        self._calls: dict[Action, tuple[Call[Any], bytes]] = {}
        self._seen: dict[bytes, Queue] = {}

    def run(self) -> None:
        """Visit every world."""
        self._number(self._reduced(self.begin(), NOW + 1), 0, Action("begin"))
        done = 0
        while done < len(self.worlds):
            first, tried = done, list[tuple[int, Action, Queue, Trip]]()
            while done < len(self.worlds) and len(tried) < AT_ONCE:
                tried += [(done, *found) for found in self.actions(self.worlds[done])]
                done += 1
            answers = self.server.run([trip for *_, trip in tried])
            for (number, action, put, _), told in zip(tried, answers, strict=True):
                self._take(number, action, put, told)
            for number in range(first, done):
                self.transitions += 1
                self._number(self._reduced(self.worlds[number], NOW + TICK), number, Action("tick"))

    def begin(self) -> Queue:
        """The first world: all is sent, a moment ago."""
        self.raw.flushall()
        Clock(self.raw, NOW)
        for n, (delay, ttl) in enumerate(self.scope.sent):
            self.queue.run(self.queue.send_call((f"m{n}", 4), delay=delay, ttl=ttl))
        if self.scope.settings:
            self.raw.hset(self.queue.keys["settings"], mapping=dict(self.scope.settings))
        cells = self.raw.execute_command("EVALSHA", self.raw.script_load(GET), len(KEYS), *KEYS)
        return read(unpack(cells))

    def actions(self, queue: Queue) -> Iterator[tuple[Action, Queue, Trip]]:
        """All that anyone can do: in which world it is done, and how."""
        there = self.server.put(NOW, write(queue))
        for name, verb in self.verbs.items():
            for args in verb.choices(queue):
                action, put = Action(name, args), verb.put(queue, *args) if verb.put else queue
                command = there if put is queue else self.server.put(NOW, write(put))
                yield action, put, self.trip(command, action)
            for args in verb.refused(queue):
                action = Action(name, args, refused=True)
                yield action, queue, self.trip(there, action)

    def trip(self, put: bytes, action: Action) -> Trip:
        """What is done in a world that is put there, and done again where its reply may be lost."""
        again = self.verbs[action.verb].again is not Again.GOES_ON and not action.refused
        return Trip(put, self._call(action)[1], 1 + again)

    def _call(self, action: Action) -> tuple[Call[Any], bytes]:
        """An action's call, and as it is sent."""
        if action not in self._calls:
            variant = self.verbs[action.verb]
            call = variant.call(*action.args)
            assert call.verb == variant.of, f"{action.verb} is not {variant.of}"
            self._calls[action] = call, self.server.packed(call.command(self._fitting))
        return self._calls[action]

    def _take(self, number: int, action: Action, put: Queue, answers: list[tuple[Any, bytes]]) -> None:
        """What came of an action."""
        self.transitions += len(answers)
        try:
            self.check(action, put, [(reply, self._world(cells, number, action)) for reply, cells in answers])
        except AssertionError as error:
            raise Violation(str(error), self.way(number, action)) from error

    def check(self, action: Action, put: Queue, told: list[tuple[Any, Queue]]) -> None:
        """Whether a call and its repetition kept the rules; told: the reply of each, and what was there then.

        Raises:
            AssertionError: which it broke.
        """
        for reply, _ in told:
            assert not isinstance(reply, ResponseError), f"it failed: {reply}"
        call, (reply, after), again = self._call(action)[0], told[0], told[1:]
        step = Step(put, *action, call.read(reply, False), after)
        check(step, self.verbs[action.verb])
        check_reply(step)
        for reply, then in again:
            check_again(step, self.verbs[action.verb].again, call.read(reply, True), then)

    def _world(self, cells: bytes, number: int, action: Action) -> Queue:
        """What these cells are; the world that stands for it is visited, too."""
        queue = self._seen.get(cells)
        if queue is None:
            queue = self._seen[cells] = read(unpack(cells))
            self._number(self._reduced(queue), number, action)
        return queue

    def _reduced(self, queue: Queue, now: int = NOW) -> Queue:
        return self.scope.reduction(queue, now)[0]

    def _number(self, queue: Queue, way: int, action: Action) -> int:
        number = self._numbers.setdefault(queue.key, len(self.worlds))
        if number == len(self.worlds):
            self.worlds.append(queue)
            self.ways.append((way, action))
        return number

    def way(self, number: int, action: Action) -> list[Action]:
        """The shortest way to a world, and then this."""
        steps = [action]
        while number:
            number, action = self.ways[number]
            steps.append(action)
        return steps[::-1]
