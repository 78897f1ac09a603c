"""Plans: what was asked is what is done, once; and how that differs is told."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import rq_dlq
from rq_dlq import BrokerUnavailable, CarriedOut, ConfigurationError, InvalidInput, Message
from rq_dlq.core.changing import changing, plans
from rq_dlq.core.changing.changing import TAKES
from rq_dlq.core.redrive import start
from rq_dlq.core.redrive.terms import Terms
from rq_dlq.core.steps.call import Call
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import bury, counts
from tests.behaviour.stepping import alone, drive
from tests.conftest import Clock
from tests.tables import each_row_afresh

ONCE = rq_dlq.RedeliveryPolicy(max_redeliveries=0)


@dataclass(frozen=True)
class Planning:
    """How a verb is planned.

    Attributes:
        place: where its messages wait.
        made: makes the plan, from the queue.
    """

    place: str
    made: Callable[[Any], Any]


CASES = {
    "redrive": Planning("dead", lambda queue: queue.dlq.redrive(all=True, dry_run=True)),
    "redrive, chosen": Planning("dead", lambda queue: queue.dlq.select(all=True).redrive(dry_run=True)),
    "edit": Planning(
        "dead", lambda queue: queue.dlq.redrive(all=True, edit=lambda body: [body], dry_run=True)
    ),
    "purge": Planning("dead", lambda queue: queue.dlq.purge(all=True, dry_run=True)),
    "purge, waiting": Planning("ready", lambda queue: queue.purge(all=True, dry_run=True)),
    "purge, where": Planning("ready", lambda queue: queue.purge(where="body >= 0", dry_run=True)),
    "expire": Planning("ready", lambda queue: queue.select(all=True).expire(dry_run=True)),
    "dead-letter": Planning("ready", lambda queue: queue.select(all=True).dead_letter("bad", dry_run=True)),
    "move": Planning("ready", lambda queue: queue.select(all=True).move("other", create=True, dry_run=True)),
    "copy": Planning(
        "dead", lambda queue: queue.dlq.select(all=True).copy("other", create=True, dry_run=True)
    ),
    "prioritize": Planning("ready", lambda queue: queue.select(all=True).prioritize(9, dry_run=True)),
    "deliver now": Planning(
        "scheduled", lambda queue: queue.select(places=["scheduled"]).deliver_now(dry_run=True)
    ),
}
"""By the name in the table of the module."""
WAITING = sorted(name for name, case in CASES.items() if case.place == "ready")
DEAD = sorted(name for name, case in CASES.items() if case.place == "dead")


@pytest.fixture
def queue(broker: Any) -> Any:
    """Its messages die at their first failure."""
    return broker.queue("q", redelivery=ONCE)


async def come(queue: Any, place: str, bodies: range) -> list[str]:
    """Messages come to a place; their ids."""
    messages = [Message(n, id=f"m{n}") for n in bodies]
    if place == "dead":
        return await bury(queue, messages)
    sent: list[str] = await queue.send_many(messages, delay="1h" if place == "scheduled" else None)
    return sent


def told(answer: Any) -> CarriedOut:
    """What a plan has done: a redrive of dead letters answers with its job."""
    done = answer if isinstance(answer, CarriedOut) else answer.carried_out
    assert isinstance(done, CarriedOut)
    return done


def numbers(done: CarriedOut) -> tuple[int, int, int, int]:
    """Of how many it has changed how many; how many were gone, and have come since."""
    return done.planned, done.changed, done.gone, done.later


@each_row_afresh("name", CASES)
async def test_only_what_was_there_is_done_and_only_once(name: str, queue: Any, clock: Clock) -> None:
    case = CASES[name]
    await come(queue, case.place, range(12))
    plan = await case.made(queue)
    assert plan.eligible == 12
    assert await counts(queue) == {case.place: 12}, "a plan changes nothing"
    clock.advance("1s")
    await come(queue, case.place, range(100, 105))
    done = told(await plan.carry_out(by="anna"))
    assert numbers(done) == (12, 12, 0, 5)
    came = "died" if case.place == "dead" else "come"
    assert str(done).endswith(f"; 5 more have {came} since, and stay")
    there = await counts(queue)
    assert there[case.place] == (17 if name in {"copy", "prioritize"} else 5)
    for _ in range(2):  # a double click, a reload
        assert told(await plan.carry_out(by="eve")) == done
    assert await counts(queue) == there


@each_row_afresh("name", CASES)
async def test_who_carries_out_a_plan_has_a_name(name: str, queue: Any, clock: Clock) -> None:
    """Also if it chose nothing, or was carried out before; and the plan is still good after that."""
    for number in (0, 3):
        clock.advance("1s")
        if number:
            await come(queue, CASES[name].place, range(number))
        plan = await CASES[name].made(queue)
        for _ in range(2):
            with pytest.raises(InvalidInput, match="pass a name"):
                await plan.carry_out(by="")
            assert told(await plan.carry_out(by="anna")).changed == number


async def test_a_plan_stays_in_its_process(queue: Any) -> None:
    await queue.send("x")
    plan = await queue.purge(all=True, dry_run=True)
    with pytest.raises(ConfigurationError, match="a plan cannot be pickled"):
        pickle.dumps(plan)


async def test_the_table_of_the_module_has_every_verb() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)`[^|]* \| (.*?) \|$", plans.__doc__ or "", re.MULTILINE))
    planned = {name for name, how in rows.items() if how.startswith("a plan")}
    assert planned == {name.partition(",")[0].replace(" ", "-") for name in CASES}
    assert set(rows) >= {*planned, "mute", "cancel", "delete"}


@each_row_afresh("name", DEAD)
async def test_twelve_were_asked_five_die_and_one_dies_again(name: str, queue: Any, clock: Clock) -> None:
    ids = await come(queue, "dead", range(12))
    plan = await CASES[name].made(queue)
    clock.advance("1s")
    await queue.dlq.redrive(ids=ids[:1])
    await queue.poison(await queue.claim(), "dead again")
    await come(queue, "dead", range(100, 105))
    done = told(await plan.carry_out(by="anna"))
    assert numbers(done) == (12, 11, 1, 6)
    missing = "1 is not there any more" + (
        ", or the other queue has its id, or is full" if name == "copy" else ""
    )
    assert str(done).partition("; ")[2] == f"{missing}; 6 more have died since, and stay"
    (again,) = await queue.dlq.browse(ids=ids[:1])
    assert again.cause.message == "dead again"


@each_row_afresh("name", WAITING)
async def test_what_returns_with_an_old_birth_was_not_asked_about(
    name: str, queue: Any, broker: Any, clock: Clock
) -> None:
    """It was redriven, moved or copied in the meantime: it is older than the plan, but was not there."""
    dead = await bury(queue, ["dead"])
    await broker.queue("elsewhere").send_many([Message(0, id="moved"), Message(0, id="copied")])
    clock.advance("1s")
    await come(queue, "ready", range(12))
    plan = await CASES[name].made(queue)
    clock.advance("1s")
    await queue.dlq.redrive(ids=dead)
    await broker.queue("elsewhere").select(ids=["moved"]).move("q")
    await broker.queue("elsewhere").select(ids=["copied"]).copy("q")
    done = told(await plan.carry_out())
    late = 2 if "where" in name else 3  # the redriven one does not meet the condition
    assert numbers(done) == (12, 12, 0, late)
    for message_id in (*dead, "moved", "copied"):
        assert (await queue.explain(message_id)).place == "ready"


@each_row_afresh("name", WAITING)
async def test_what_came_with_an_old_birth_before_was_asked_about(
    name: str, queue: Any, broker: Any, clock: Clock
) -> None:
    """Among these what is younger than all that this queue has sent."""
    dead = await come(queue, "dead", range(1))
    clock.advance("1s")
    await broker.queue("elsewhere").send_many([Message(1, id="moved"), Message(1, id="copied")])
    await queue.dlq.redrive(ids=dead)
    await broker.queue("elsewhere").select(ids=["moved"]).move("q")
    await broker.queue("elsewhere").select(ids=["copied"]).copy("q")
    clock.advance("1s")
    plan = await CASES[name].made(queue)
    assert plan.eligible == 3
    assert numbers(told(await plan.carry_out())) == (3, 3, 0, 0)


@each_row_afresh("name", DEAD)
async def test_an_undo_brings_back_what_was_not_asked_about(name: str, queue: Any, clock: Clock) -> None:
    """With the old times of death."""
    first = await come(queue, "dead", range(3))
    await come(queue, "dead", range(10, 12))
    job = await queue.dlq.redrive(ids=first)
    clock.advance("1s")
    plan = await CASES[name].made(queue)
    assert plan.eligible == 2
    await job.undo()
    assert numbers(told(await plan.carry_out()))[:3] == (2, 2, 0)
    assert {letter.id for letter in await queue.dlq.browse()} >= {"m0", "m1", "m2"}


@each_row_afresh("name", WAITING)
async def test_what_was_processed_is_not_replaced_by_what_was_sent(
    name: str, queue: Any, clock: Clock
) -> None:
    await come(queue, "ready", range(12))
    plan = await CASES[name].made(queue)
    clock.advance("1s")
    await queue.ack(await queue.claim(1))
    await come(queue, "ready", range(100, 105))
    assert numbers(told(await plan.carry_out())) == (12, 11, 1, 5)


@each_row_afresh("name", ["redrive", "edit"])
async def test_what_dies_again_while_the_redrive_begins_stays_dead(
    name: str, queue: Any, broker: Any, clock: Clock, raw: Any
) -> None:
    """It has been listed, and was redriven by another call before it was its turn."""
    ids = await come(queue, "dead", range(3))
    plan = await CASES[name].made(queue)
    clock.advance("1s")
    listed = False

    async def between(_: str) -> None:
        nonlocal listed
        if not listed and raw.keys("rq:{q}:redrive:*"):
            listed = True
            await queue.dlq.select(ids=ids[:1]).redrive()
            await queue.poison(await queue.claim(), "dead again")

    terms = Terms(by="anna", edit=str if name == "edit" else None)
    core, planned = queue.dlq._core, plan._planned
    (begun,) = await drive(broker, start.begin(core, planned.choice, terms, planned), between)
    assert listed
    job = await plan.carry_out()
    assert job.id == begun.id
    assert (job.counts.eligible, job.counts.moved, job.counts.gone) == (3, 2, 1)
    (left,) = await queue.dlq.browse()
    assert (left.id, left.cause.message) == (ids[0], "dead again")


async def test_of_a_limit_the_first_are_meant_that_were_there(queue: Any) -> None:
    """One that has gone is not replaced by the next one."""
    ids = await come(queue, "dead", range(9))
    for verb in (
        partial(queue.dlq.select(limit=3).purge, dry_run=True),
        partial(queue.dlq.redrive, limit=3, dry_run=True),
    ):
        plan = await verb()
        first = await queue.dlq.browse(limit=1)
        await queue.dlq.purge(ids=[first[0].id])
        done = told(await plan.carry_out())
        assert numbers(done)[:3] == (3, 2, 1)
    assert [letter.id for letter in await queue.dlq.browse()] == ids[6:]


async def test_it_is_never_more_than_it_said(queue: Any) -> None:
    """Those of the same millisecond cannot be told from those that were shown."""
    for made in (CASES["purge"].made, CASES["redrive"].made, CASES["redrive, chosen"].made):
        await come(queue, "dead", range(12))
        plan = await made(queue)
        await come(queue, "dead", range(100, 105))
        assert told(await plan.carry_out()).changed == 12
        assert (await counts(queue))["dead"] == 5
        await queue.purge(all=True)
        await queue.dlq.purge(all=True)


async def test_a_clock_that_stepped_back(queue: Any, clock: Clock) -> None:
    """What has died in the future was there."""
    await come(queue, "dead", range(3))
    clock.set(clock.now - 60_000)
    plan = await queue.dlq.purge(all=True, dry_run=True)
    assert plan.eligible == 3
    assert told(await plan.carry_out()).changed == 3


@each_row_afresh("name", ["purge", "redrive", "purge, waiting"])
async def test_the_condition_is_that_of_then(name: str, queue: Any, clock: Clock) -> None:
    """A message that was too young for it is not old enough a minute later."""
    place = CASES[name].place
    await come(queue, place, range(2))
    clock.advance("1h")
    await come(queue, place, range(10, 13))
    dry: dict[str, Any] = {"dry_run": True}
    if name == "purge":
        plan = await queue.dlq.purge(older_than="30m", **dry)
    elif name == "redrive":
        plan = await queue.dlq.redrive(older_than="30m", **dry)
    else:
        plan = await queue.purge(where="age > '30m'", **dry)
    assert plan.eligible == 2
    clock.advance("50m")
    assert numbers(told(await plan.carry_out())) == (2, 2, 0, 0)


async def test_what_is_being_processed_is_told_apart(queue: Any) -> None:
    await come(queue, "ready", range(5))
    held = await queue.claim(1)
    plan = await queue.purge(all=True, dry_run=True)
    assert (plan.eligible, plan.leased, str(plan)) == (
        4, 1, "4 messages of q will be removed; 1 message being processed will stay",
    )  # fmt: skip
    held += await queue.claim(2)
    await queue.ack(await queue.claim(1))
    done = told(await plan.carry_out())
    assert str(done) == "1 of 4 removed; 1 is not there any more; 2 are being processed, and stay"
    await queue.release(held)


async def test_a_plan_is_good_for_an_hour(queue: Any, clock: Clock) -> None:
    await come(queue, "dead", range(3))
    for made in (CASES["purge"].made, CASES["redrive"].made):
        plan = await made(queue)
        clock.advance(3601)
        with pytest.raises(InvalidInput, match="more than an hour old, so nothing was done"):
            await plan.carry_out()
        assert await counts(queue) == {"dead": 3}
    late = await CASES["purge"].made(queue)
    clock.advance(3600)
    done = told(await late.carry_out())
    assert done.changed == 3
    clock.advance(60)  # who asks again gets the answer of then
    assert told(await late.carry_out()) == done


async def test_the_plan_of_a_priority_has_those_that_have_another(queue: Any) -> None:
    await come(queue, "ready", range(3))
    assert await queue.select(ids=["m0"]).prioritize(9) == 1
    plan = await queue.select(all=True).prioritize(9, dry_run=True)
    assert plan.eligible == 2
    await queue.select(ids=["m1"]).prioritize(9)
    assert numbers(await plan.carry_out())[:3] == (2, 1, 1)


async def test_all_who_carry_it_out_leave_one_note(queue: Any, broker: Any) -> None:
    await come(queue, "dead", range(45))
    plan = await queue.dlq.purge(all=True, dry_run=True)
    await plan.carry_out(by="anna")
    await plan.carry_out(by="eve")
    notes = [(note.did, note.by, note.number) for note in await broker.audit() if note.did == "purged"]
    assert notes == [("purged", "anna", 45)]


async def test_a_plan_of_several_queues(broker: Any, clock: Clock) -> None:
    """Those that get the name later are not part of it: what has died there is told, and stays."""
    shared = rq_dlq.SharedDeadLetterStrategy("LOST")
    for name in ("a", "b"):
        await bury(broker.queue(name, dead_letter=shared), range(3))
    letters = broker.queue("LOST").dlq
    for made, new in ((letters.purge, "c"), (letters.redrive, "d")):
        plan = await made(all=True, dry_run=True)
        assert plan.eligible == 6
        clock.advance("1s")
        await bury(broker.queue("a"), range(2))
        await bury(broker.queue(new, dead_letter=shared), range(3))
        done = told(await plan.carry_out())
        assert numbers(done) == (6, 6, 0, 5)
        assert told(await plan.carry_out()) == done
        assert await counts(broker.queue(new)) == {"dead": 3}
        await broker.queue(new).dlq.purge(all=True)
        await bury(broker.queue("b"), range(4))


# By several, and after lost replies

SEVERAL = 45  # more than two scripts take


def steps_of(queue: Any, plan: Any, name: str) -> Any:
    """The steps that carry out a plan."""
    change: dict[str, Callable[..., Any]] = {
        "purge": changing.purge,
        "prioritize": partial(changing.prioritize, priority=9),
        "expire": changing.expire_now,
        "redrive": changing.redrive,
    }
    verb = name.partition(",")[0]
    core = (queue.dlq if CASES[name].place == "dead" else queue)._core
    return plans.carry_out(core, plan._planned, partial(change[verb], core), TAKES[verb])


ALONE = ("purge", "purge, waiting", "purge, where", "expire", "prioritize", "redrive, chosen")


class Client:
    """Carries out a plan, step by step.

    Attributes:
        calls: how many calls of the plan it has made.
        answer: what it got; None: it has not come to its end.
    """

    def __init__(self, broker: Any, steps: Any) -> None:
        self._broker, self._steps, self._value = broker, steps, None
        self.calls = 0
        self.answer: CarriedOut | None = None

    async def step(self) -> bool:
        """One more step; whether there was one."""
        if self.answer is None:
            try:
                step = self._steps.send(self._value)
            except StopIteration as stop:
                self.answer = stop.value
            else:
                self._value = await self._broker._run(alone(step))
                self.calls += isinstance(step, Call) and bool(step.args.get("plan"))
        return self.answer is None


async def planned_for(name: str, queue: Any, clock: Clock) -> Any:
    """A plan of many messages, and three come after it."""
    for other in (queue, queue.dlq, queue.expired):
        await other.select(all=True).purge()
    clock.advance("1s")
    await come(queue, CASES[name].place, range(SEVERAL))
    plan = await CASES[name].made(queue)
    clock.advance("1s")
    await come(queue, CASES[name].place, range(100, 103))
    return plan


@each_row_afresh("name", ALONE)
async def test_whoever_was_stopped_is_continued(name: str, queue: Any, broker: Any, clock: Clock) -> None:
    """After each of its calls; and what it has done is part of the answer."""
    for calls in range(1, 4):
        plan = await planned_for(name, queue, clock)
        client = Client(broker, steps_of(queue, plan, name))
        while client.calls < calls:
            assert await client.step()
        assert numbers(told(await plan.carry_out())) == (SEVERAL, SEVERAL, 0, 3)


@each_row_afresh("name", ALONE)
async def test_two_who_confirm_at_once(name: str, queue: Any, broker: Any, clock: Clock) -> None:
    """By turns, one ahead of the other by any number of steps."""
    for ahead in range(9):
        plan = await planned_for(name, queue, clock)
        first, second = (Client(broker, steps_of(queue, plan, name)) for _ in range(2))
        for _ in range(ahead):
            await first.step()
        while (await first.step()) | (await second.step()):
            pass
        assert first.answer == second.answer
        assert numbers(told(first.answer)) == (SEVERAL, SEVERAL, 0, 3)


@each_row_afresh("name", CASES)
async def test_a_lost_reply_changes_nothing_of_the_answer(
    name: str, queue: Any, broker: Any, clock: Clock
) -> None:
    script = {
        "redrive": "start_redrive", "edit": "start_redrive", "redrive, chosen": "redrive",
        "expire": "expire_now", "dead-letter": "dead_letter", "move": "transfer", "copy": "transfer",
        "deliver now": "deliver_now",
    }.get(name, name.partition(",")[0])  # fmt: skip
    await come(queue, CASES[name].place, range(SEVERAL))
    plan = await CASES[name].made(queue)
    clock.advance("1s")
    await come(queue, CASES[name].place, range(100, 103))
    lost = await lose_replies(broker, script, 2)
    done = told(await plan.carry_out())
    assert lost.left == 0
    assert numbers(done) == (SEVERAL, SEVERAL, 0, 3)
    assert told(await plan.carry_out()) == done


async def test_who_hears_nothing_repeats_it(queue: Any, broker: Any, clock: Clock) -> None:
    """The first could not say what it has done; the second does."""
    await come(queue, "dead", range(SEVERAL))
    for name, script in (("redrive", "start_redrive"), ("purge", "purge")):
        plan = await CASES[name].made(queue)
        clock.advance("1s")
        await come(queue, "dead", range(100, 103))
        lost = await lose_replies(broker, script, 9)
        with pytest.raises(BrokerUnavailable):
            await plan.carry_out()
        lost.left = 0
        assert numbers(told(await plan.carry_out())) == (plan.eligible, plan.eligible, 0, 3)
        assert (await counts(queue))["dead"] == 3


async def test_two_begin_one_redrive(queue: Any, broker: Any, clock: Clock) -> None:
    """Both have listed its messages; one job moves them."""
    await come(queue, "dead", range(SEVERAL))
    plan = await CASES["redrive"].made(queue)
    clock.advance("1s")
    await come(queue, "dead", range(100, 103))
    other: list[Any] = []

    async def between(script: str) -> None:
        if script == "scan" and not other:
            other.append(await plan.carry_out(by="eve"))

    core, planned = queue.dlq._core, plan._planned
    (begun,) = await drive(broker, start.begin(core, planned.choice, Terms(by="anna"), planned), between)
    (job,) = await queue.dlq.jobs()
    assert begun.id == other[0].id == job.id
    assert (job.by, job.counts.moved) == ("eve", SEVERAL)
    assert await counts(queue) == {"ready": SEVERAL, "dead": 3}


async def test_a_gradual_redrive_is_planned_alike(queue: Any, clock: Clock) -> None:
    """What dies again while it runs stays dead, and so does what was never asked about."""
    await come(queue, "dead", range(12))
    plan = await queue.dlq.redrive(all=True, canary=3, dry_run=True)
    clock.advance("1s")
    await come(queue, "dead", range(100, 105))
    job = await plan.carry_out(by="anna")
    assert (job.state, job.counts.eligible) == ("running", 12)
    assert (await plan.carry_out()).id == job.id
    await job.wait(0)
    await queue.ack(await queue.claim(3))
    await job.wait()
    assert str(told(job)) == "12 moved back; 5 more have died since, and stay"
    assert await counts(queue) == {"ready": 9, "dead": 5}
