"""The two colours are twins: the same names, the same signatures."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import rq_dlq
import rq_dlq.asyncio
import rq_dlq.asyncio.key
from rq_dlq.client.dependency import Dependency, DependencyOfAll
from rq_dlq.client.dlq import DeadLetters
from rq_dlq.client.key import Key
from rq_dlq.client.policies import Policies
from tests import colours_twin
from tests.colours import PLAIN
from tests.needs import need
from tests.tables import each_row_afresh

TWINS = {
    "Broker": (rq_dlq.Broker, rq_dlq.asyncio.Broker),
    "Queue": (rq_dlq.Queue, rq_dlq.asyncio.Queue),
    "Delivery": (rq_dlq.Delivery, rq_dlq.asyncio.Delivery),
    "DeadLetters": (DeadLetters, rq_dlq.asyncio.DeadLetters),
    "Dependency": (Dependency, rq_dlq.asyncio.dependency.Dependency),
    "DependencyOfAll": (DependencyOfAll, rq_dlq.asyncio.dependency.DependencyOfAll),
    "Gather": (rq_dlq.Gather, rq_dlq.asyncio.Gather),
    "GatheredTask": (rq_dlq.GatheredTask, rq_dlq.asyncio.GatheredTask),
    "Key": (Key, rq_dlq.asyncio.key.Key),
    "Policies": (Policies, rq_dlq.asyncio.Policies),
    "RedriveJob": (rq_dlq.RedriveJob, rq_dlq.asyncio.RedriveJob),
    "Selection": (rq_dlq.Selection, rq_dlq.asyncio.Selection),
    "Session": (rq_dlq.Session, rq_dlq.asyncio.Session),
    "Task": (rq_dlq.Task, rq_dlq.asyncio.Task),
}
# All that `dir()` shows of each: what users type.
NAMES = {
    "Broker": """audit close dependency gather gathers lifespan observe overview policies queue queues run
        schedules task url
        workers""",
    "Queue": """ack cancel claim consume delete dependency dlq expired explain extend handler key keys
        maintain nack name open outcomes pause pause_schedule peek poison purge release reset result resume
        resume_schedule schedule select send send_many session settings stats unschedule""",
    "Delivery": """ack attempt body cancelled cause charged data delivery_count dependency died_at due
        enqueued_at expires_at extend fingerprint gathered headers history key lapsed lease_until
        lost nack nacked
        original_queue outcome part poison priority progress progress_made queue reason redelivered
        redriven release released remaining settled state token untried""",
    "DeadLetters": "browse groups job jobs mute purge redrive select unmute",
    "Dependency": "pause probe resume stats",
    "DependencyOfAll": "pause probe resume stats",
    "Gather": "cancel close id options send",
    "GatheredTask": "send",
    "Key": "limit pause resume stats",
    "Policies": "explain put read remove set undeclare",
    "RedriveJob": """began by cancel carried_out chosen counts how id pause refresh refusals resume state
        undo wait why""",
    "Selection": """browse copy count count_by dead_letter deliver_now expire groups move prioritize
        purge redrive""",
    "Session": "claim close commit recover rollback send",
    "Task": "name options send send_many",
}
# What an object has, and its class not.
ATTRIBUTES = {"Broker": "settings", "Delivery": "id"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@each_row_afresh("name", TWINS)
def test_public_is_what_users_type(name: str) -> None:
    plain, awaiting = map(public, TWINS[name])
    assert awaiting == {*NAMES[name].split()}
    assert plain == awaiting


async def test_nothing_else_becomes_public_by_use(broker: Any) -> None:
    """What a method or a constructor puts into an object is internal, too."""
    queue = broker.queue("orders")
    await queue.send("a")
    (delivery,) = await queue.claim()
    session, chosen, task = queue.session(), queue.select(all=True), broker.task(repr)
    job = await queue.dlq.redrive(all=True)
    lanes = (queue.dependency("d"), broker.dependency("d"), queue.key("k"))
    gather = broker.gather(then=(queue, "x"))
    gathers = (gather, gather.options(task))
    rest = (broker.policies, job, chosen, session, task)
    things = (broker, queue, delivery, queue.dlq, *lanes[:2], *gathers, lanes[2], *rest)
    used = zip(TWINS, things, strict=True)
    for name, thing in used:
        inside = vars(getattr(thing, "inner", thing))
        shown = {attribute for attribute in inside if not attribute.startswith("_")}
        assert shown <= {*NAMES[name].split(), *ATTRIBUTES.get(name, "").split()}, name


def methods() -> list[Any]:
    return [
        (getattr(plain, name), getattr(awaiting, name))
        for plain, awaiting in TWINS.values()
        for name in sorted(public(plain) & public(awaiting))
        if callable(getattr(plain, name))
    ]


@each_row_afresh("plain, awaiting", methods())
def test_same_parameters(plain: Any, awaiting: Any) -> None:
    assert shape(plain) == shape(awaiting)


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


@each_row_afresh("plain, awaiting", methods())
def test_one_awaits_where_the_other_blocks(plain: Any, awaiting: Any) -> None:
    assert not inspect.iscoroutinefunction(plain)
    does_no_io = awaiting.__name__ in PLAIN
    assert inspect.iscoroutinefunction(awaiting) is not does_no_io


def test_same_constructor() -> None:
    for plain, awaiting in TWINS.values():
        mine, other = (list(inspect.signature(kind).parameters) for kind in (plain, awaiting))
        assert sorted(mine) == sorted(other)


@each_row_afresh("made", colours_twin.pairs())
def test_blocking_files_are_made_from_the_awaiting_ones(made: Path) -> None:
    need("ruff", extra="lint")
    said = f"{made} differs from what it is made from: {colours_twin.REFRESH}"
    assert made.read_text() == colours_twin.blocking(colours_twin.pairs()[made]), said


@each_row_afresh("made", colours_twin.pairs())
def test_nothing_of_the_other_colour_is_left(made: Path) -> None:
    text = made.read_text().partition("\n")[2].replace("`async def`", "")  # of handlers
    assert re.findall(r"(?i)\w*(?:async|await)\w*", text) == []


def test_each_file_made_has_a_source() -> None:
    head = "# Generated from "
    for room in colours_twin.ROOMS.values():
        files = [
            file for file in (colours_twin.ROOT / room).glob("*.py") if file.read_text().startswith(head)
        ]
        assert set(files) == {
            made for made in colours_twin.pairs() if made.parent == colours_twin.ROOT / room
        }
