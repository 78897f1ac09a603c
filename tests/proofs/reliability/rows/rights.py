"""T20: each right of each role taken away in turn, and everything tried that the role does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import rq_dlq
from rq_dlq import _keys
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.acl import OLD, USEFUL, acl_line
from rq_dlq._redis.rights import right_of
from rq_dlq._redis.roles import ROLES
from rq_dlq.errors import BrokerRefused, MissingRights
from tests.proofs.reliability.findings import first
from tests.proofs.reliability.rights import NAMESPACE, ORDERS, World
from tests.proofs.reliability.row import Figures, Row, Run
from tests.proofs.reliability.verbs import OF_STEPS, VERBS, Hands
from tests.servers import Server

OPTIONAL = {f"+{right_of(command)}" for command in USEFUL} - {"+time", "+select"}  # which are needed here
TOLD = {"+publish", "+subscribe", "+unsubscribe"}  # without them a caller looks each second for its result
LOST_RACE = {"+srem"}  # who opens a queue needs it only if a policy gives the name away in the same moment


@dataclass(frozen=True)
class Lacking:
    """A role without something.

    Attributes:
        taken: the right, or "~" and the key.
        rules: all that the user has.
    """

    role: str
    taken: str
    rules: tuple[str, ...]

    @property
    def by_key(self) -> bool:
        """Whether keys were taken away."""
        return self.taken[0] in "~%"

    def __str__(self) -> str:
        return f"{self.role} without {self.taken}"


@dataclass
class Count:
    """What came of the trials.

    Attributes:
        done: as with all rights.
        refused: with the error that names the right, before anything was written.
        part_way: likewise, by a verb of several steps (OF_STEPS), some of which were done.
        missed: the rights, by role, without which something was refused.
        harmed: queues that do not add up afterwards.
        wrong: trials that ended otherwise.
    """

    done: int = 0
    refused: int = 0
    part_way: Counter[str] = field(default_factory=Counter[str])
    missed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    harmed: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])


def run(run: Run) -> Figures:
    """Take them away."""
    with Server(run.directory) as server:
        world = World(server)
        with world.broker("default") as broker:
            modern = broker._connected().run(broker.settings.check_server()) >= (7,)
            expected = {
                role: {verb: _tried(world, broker, role, verb) for verb in verbs}
                for role, verbs in VERBS.items()
            }
        users = [user for role in ROLES for user in _users(role, modern=modern)]
        count = Count()
        for number, user in enumerate(users):
            names = [*VERBS[user.role]]
            world.raw.execute_command("ACL", "SETUSER", user.role, "reset", "on", ">secret", *user.rules)
            with world.broker(user.role) as broker:
                for verb in run.pick(short=run.random.sample(names, 1), whole=names):
                    _begin_anew(world, broker, user)
                    _judge(world, broker, count, (user, verb), expected[user.role][verb])
            run.done(number, len(users), str(user))
    needed = {
        (user.role, user.taken)
        for user in users
        if not user.by_key and user.taken not in OPTIONAL | TOLD | LOST_RACE
    }
    idle = sorted(needed - count.missed) if run.scale != "short" else []
    needless = sorted(OF_STEPS.keys() - count.part_way) if run.scale != "short" else []
    return Figures(
        trials=count.done + count.refused + count.part_way.total() + len(count.harmed),
        met=not (count.harmed or count.wrong or idle or needless),
        note=f"{len(needed)} rights: {count.refused:,} refused before the first write, {count.done:,} done, "
        f"{count.part_way.total():,} stopped between two steps" + _told(count, idle, needless),
    )


def _told(count: Count, idle: list[tuple[str, str]], needless: list[str]) -> str:
    unneeded = [f"{role} does not need {right}" for role, right in idle]
    unneeded += [f"{verb} never stops between two steps" for verb in needless]
    return "".join(f"; {what}" for what in first([*count.harmed, *count.wrong, *unneeded]))


def _users(name: str, *, modern: bool) -> Iterator[Lacking]:
    """A role without each of its rights, then without each key, then with all keys only to read."""
    rules = acl_line(ROLES[name], name, NAMESPACE, ways=OLD).split()[3:]
    for rule in rules:
        if rule[0] == "+":
            yield Lacking(name, rule, tuple(other for other in rules if other != rule))
    rights = [rule for rule in rules if rule[0] != "~"]
    for key in (keys := [*_all_keys()]):
        yield Lacking(name, f"~{key}", (*rights, *(f"~{other}" for other in keys if other != key)))
    if modern:
        yield Lacking(name, "%R~", (*rights, f"%R~{NAMESPACE}:*"))


def _all_keys() -> Iterator[str]:
    """All keys, those of ORDERS and of the namespace one by one."""
    keys = QueueKeys(NAMESPACE, ORDERS)
    yield from keys.by_name.values()
    yield from (keys.sender("*"), keys.stage("*", "*"), keys.job("*"), keys.stream("*"))
    for of_all in (_keys.queues, _keys.policies, _keys.aliases, _keys.processes):
        yield of_all(NAMESPACE)
    yield f"{NAMESPACE}:{{shop}}.b*"
    yield f"{NAMESPACE}:{{shop}}.f*"
    yield f"{NAMESPACE}:{{new}}:*"


def _tried(world: World, broker: rq_dlq.Broker, role: str, verb: str) -> tuple[Any, Any]:
    """What a verb says, or its error; and how many messages are where then, unless nothing has changed."""
    try:
        said = VERBS[role][verb](Hands(world, broker))
    except BrokerRefused as error:
        said = error
    if not world.touched():
        return said, None
    counts = world.audit()
    world.restore()
    return said, counts


def _begin_anew(world: World, broker: rq_dlq.Broker, user: Lacking) -> None:
    """Nothing is known of rights, nor to the server of scripts where they could not be loaded."""
    with suppress(BrokerRefused):  # without SELECT there is no connection at all
        broker._connected()._link.forget_rights()
    if user.taken == "+script|load":
        world.raw.script_flush()


def _judge(
    world: World, broker: rq_dlq.Broker, count: Count, trial: tuple[Lacking, str], expected: tuple[Any, Any]
) -> None:
    """Try it, and see what came of it."""
    (user, verb), what = trial, ": ".join(map(str, trial))
    try:
        said, counts = _tried(world, broker, user.role, verb)
    except AssertionError as error:
        count.harmed.append(f"{what}: {error}")
        world.restore()
        return
    if not isinstance(said, BrokerRefused):
        count.done += 1
        if (said, counts) != expected:
            count.wrong.append(f"{what}: {said} {counts}, not {expected}")
        return
    count.missed.add((user.role, user.taken))
    named = said.rights if isinstance(said, MissingRights) else ()
    if not (any(right[0] == "~" for right in named) if user.by_key else user.taken in named):
        count.wrong.append(f"{what}: {type(said).__name__} {said}")
    if counts is None:
        count.refused += 1
    elif verb in OF_STEPS:
        count.part_way[verb] += 1
    else:
        count.wrong.append(f"{what}: refused, but something was done before")


ROWS = (
    Row(
        "T20",
        "each right of 4 roles, and each key, taken away; all that the role does, to messages in all states",
        "done, or refused before the first write with the right named; 0 messages harmed",
        run,
    ),
)
