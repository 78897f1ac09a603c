"""How many round trips the verbs of operators take, and what they do when a name has changed hands."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

import rq_dlq
from rq_dlq import InvalidInput, PerKey, SharedDeadLetterStrategy
from rq_dlq.core.queues import calls, names
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.values.failure import Cause
from tests.behaviour.faults import connections_of
from tests.behaviour.helpers import bury, counts
from tests.behaviour.stepping import alone
from tests.tables import each_row_afresh
from tests.variants import both_colours

pytestmark = both_colours("the two colours talk to the server by code of their own")
Act = Callable[[Any], Awaitable[Any]]
KIND: str = Cause.of(ValueError("no")).fingerprint
REDRIVES: dict[str, Act] = {
    "all": lambda queue: queue.dlq.redrive(all=True),
    "limit": lambda queue: queue.dlq.redrive(limit=2),
    "where": lambda queue: queue.dlq.redrive(where="delivery_count > 0"),
    "reason": lambda queue: queue.dlq.redrive(reason="poison"),
    "older than": lambda queue: queue.dlq.redrive(reason="poison", older_than=0),
    "ids": lambda queue: queue.dlq.redrive(ids=["d0", "d1"]),
    "expired": lambda queue: queue.expired.redrive(all=True),
}
VERBS: dict[str, Act] = {
    "purge ids": lambda queue: queue.select(ids=["m0"]).purge(),
    "purge where": lambda queue: queue.purge(where="body = 1"),
    "purge limit": lambda queue: queue.select(limit=1).purge(),
    "purge letters": lambda queue: queue.dlq.select(ids=["d0"]).purge(),
    "purge letters where": lambda queue: queue.dlq.purge(where="delivery_count > 0"),
    "purge all letters": lambda queue: queue.dlq.purge(all=True),
    "purge all": lambda queue: queue.purge(all=True),
    "dead_letter": lambda queue: queue.select(ids=["m0"]).dead_letter("no"),
    "expire": lambda queue: queue.select(where="body = 1").expire(),
    "prioritize": lambda queue: queue.select(limit=1).prioritize(9),
    "move": lambda queue: queue.select(limit=1).move("other"),
    "copy": lambda queue: queue.dlq.select(ids=["d0"]).copy("other"),
    "pause": lambda queue: queue.pause(by="anna"),
    "resume": lambda queue: queue.resume(),
    "reset": lambda queue: queue.reset(),
    "cancel": lambda queue: queue.cancel("m1"),
    "mute": lambda queue: queue.dlq.mute(group=KIND),
    "unmute": lambda queue: queue.dlq.unmute(group=KIND),
    "pause a key": lambda queue: queue.key("k").pause(),
    "resume a key": lambda queue: queue.key("k").resume(),
    "limit a key": lambda queue: queue.key("k").limit(2),
    "resume a dependency": lambda queue: queue.dependency("d").resume(),
    "probe": lambda queue: queue.dependency("d").probe(),
}
READS: dict[str, tuple[Act, int]] = {
    "stats": (lambda queue: queue.stats(), 1),
    "peek": (lambda queue: queue.peek(), 1),
    "browse": (lambda queue: queue.dlq.browse(), 1),
    "browse a group": (lambda queue: queue.dlq.browse(group=KIND), 1),
    "groups": (lambda queue: queue.dlq.groups(), 1),
    "count": (lambda queue: queue.select("body = 1", places=["ready"]).count(), 1),
    "outcomes": (lambda queue: queue.outcomes(), 1),
    "explain": (lambda queue: queue.explain("unknown"), 2),
    "jobs": (lambda queue: queue.dlq.jobs(), 2),
    "keys": (lambda queue: queue.keys(), 2),
    "key": (lambda queue: queue.key("k").stats(), 2),
    "dependency": (lambda queue: queue.dependency("d").stats(), 2),
    "a dry run": (lambda queue: queue.select(limit=1).purge(dry_run=True), 2),
}


@pytest.fixture(params=["real"])
def backend(request: pytest.FixtureRequest) -> str:
    """The steps are the same on both kinds of servers."""
    return str(request.param)


async def fill(broker: Any) -> Any:
    """A queue with messages in several states, and another one; what was there is gone."""
    queue = broker.queue("orders", per_key=PerKey(limit=3))
    for place in (queue, queue.dlq, queue.expired):
        await place.purge(all=True)
    await bury(queue, [rq_dlq.Message(n, id=f"d{n}") for n in range(3)], ValueError("no"))
    await queue.send_many([rq_dlq.Message(n, id=f"m{n}") for n in range(3)])
    await queue.send("x", id="e")
    await queue.select(ids=["e"]).expire()
    await broker.queue("other").purge(all=True)
    await broker.queue("other").open()
    return queue


async def trips_of(broker: Any, act: Callable[[], Awaitable[Any]]) -> tuple[int, Any]:
    """How many round trips an act takes, and its result."""
    connections, trips = await connections_of(broker), 0
    talk: Callable[..., Any] = connections._talk

    async def awaiting(commands: Any) -> Any:
        nonlocal trips
        trips += 1
        return await talk(commands)

    def blocking(commands: Any) -> Any:
        nonlocal trips
        trips += 1
        return talk(commands)

    connections._talk = awaiting if inspect.iscoroutinefunction(talk) else blocking
    try:
        result = await act()
    finally:
        connections._talk = talk
    return trips, result


async def most_trips(broker: Any, act: Act) -> int:
    """The round trips of an act, of a queue object that has done it before and of a new one."""
    found: list[int] = []
    await act(await fill(broker))  # loads the scripts, proves the rights
    for _ in ("known", "new"):
        queue = await fill(broker)
        if found:
            queue = broker.queue("orders")
        trips, _ = await trips_of(broker, lambda queue=queue: act(queue))  # type: ignore[misc]
        found.append(trips)
    return max(found)


@each_row_afresh("name", REDRIVES)
async def test_a_redrive(name: str, broker: Any) -> None:
    queue = await fill(broker)
    trips, job = await trips_of(broker, lambda: REDRIVES[name](queue))
    assert (job.state, job.counts.moved > 0) == ("done", True)
    most = 5 if name == "older than" else 4  # the age is by the server's clock, which is read first
    assert trips <= most
    assert await most_trips(broker, REDRIVES[name]) <= most


async def test_a_redrive_of_a_group(broker: Any) -> None:
    queue = await fill(broker)
    (group,) = await queue.dlq.groups()
    assert group.fingerprint == KIND
    trips, job = await trips_of(broker, lambda: queue.dlq.redrive(group=group))
    assert job.counts.moved == 3
    assert trips <= 4


@each_row_afresh("name", VERBS)
async def test_a_verb_of_operators(name: str, broker: Any) -> None:
    assert await most_trips(broker, VERBS[name]) <= 2


@each_row_afresh("force", [False, True])
async def test_a_delete(force: bool, broker: Any) -> None:
    """Between the removal of the keys and that of the name, shares of gathers are carried."""
    for _ in ("loads the scripts", "is counted"):
        queue = broker.queue("gone")
        await queue.send("x")
        if not force:
            await queue.purge(all=True)
        trips, _ = await trips_of(broker, partial(queue.delete, force=force))
    assert trips == 4


async def test_a_change_of_policies(broker: Any) -> None:
    """Two for the map, one for the names of queues, two for the settings of each 25 queues."""
    await broker.queue("orders").send("x")
    policies, most = broker.policies, 5
    assert (await trips_of(broker, lambda: policies.set("orders", rate="9/s"))) == (most, 1)
    assert (await trips_of(broker, lambda: policies.set("others", rate="9/s"))) == (3, 0)
    assert (await trips_of(broker, lambda: policies.remove("orders"))) == (most, 1)
    await broker.queue("orders", rate="7/s").open()
    assert (await trips_of(broker, lambda: policies.undeclare("orders"))) == (4, True)
    assert (await trips_of(broker, lambda: policies.undeclare("orders"))) == (1, False)


async def test_an_opening(broker: Any) -> None:
    """The name, the map and, where the map has something for it, the settings."""
    await broker.queue("other").open()
    assert (await trips_of(broker, broker.queue("orders").open))[0] == 2
    await broker.policies.set("orders.#", rate="9/s")
    assert (await trips_of(broker, broker.queue("orders.eu").open))[0] == 3


@each_row_afresh("name", READS)
async def test_a_read(name: str, broker: Any) -> None:
    act, most = READS[name]
    assert await most_trips(broker, act) <= most


@each_row_afresh("verb", ["pause", "resume", "cancel", "undo"])
async def test_a_verb_for_a_redrive(verb: str, broker: Any) -> None:
    queue = await fill(broker)
    job = await queue.dlq.redrive(all=True, rate=1)
    if verb == "resume":
        await job.pause()
    await queue.stats()
    trips, _ = await trips_of(broker, getattr(job, verb))
    assert trips == 2


# A name that shows the dead letters of others

SHARED: dict[str, tuple[Act, int]] = {
    "stats": (lambda lost: lost.stats(), 1),
    "groups": (lambda lost: lost.dlq.groups(), 1),
    "count": (lambda lost: lost.select("body = 1").count(), 1),
    "redrive": (lambda lost: lost.dlq.redrive(limit=2), 4),
    "purge": (lambda lost: lost.select(limit=1).purge(), 2),
    "purge letters": (lambda lost: lost.dlq.purge(where="delivery_count > 0"), 2),
}


@each_row_afresh("name", SHARED)
async def test_a_shared_name(name: str, broker: Any) -> None:
    """Once it is known whose letters it shows, a verb takes as many trips as for a queue."""
    act, most = SHARED[name]
    await give(broker)
    lost = broker.queue("LOST")
    await lost.stats()
    await act(lost)
    await bury(broker.queue("a"), [1, 2, 3])
    trips, _ = await trips_of(broker, lambda: act(lost))
    assert trips <= most
    trips, _ = await trips_of(broker, lambda: act(broker.queue("LOST")))
    assert trips <= most + 3, "its aliases, its queues and their names are read first"


async def test_a_shared_name_shows_what_was_given_since(broker: Any) -> None:
    await give(broker)
    lost = broker.queue("LOST")
    assert await counts(lost) == {"dead": 2}
    await broker.policies.set("b", dead_letter=SharedDeadLetterStrategy("LOST"))
    await bury(broker.queue("b"), ["z"])
    assert await counts(lost) == {"dead": 3}
    assert (await trips_of(broker, lost.stats))[0] == 1
    await broker.policies.remove("a")
    assert await counts(lost) == {"dead": 1}
    await lost.send("own")
    assert await counts(lost) == {"ready": 1, "dead": 1}
    await broker.policies.remove("b")
    assert await counts(lost) == {"ready": 1}


# A name changes hands


async def give(broker: Any, name: str = "LOST") -> None:
    """Another program gives a name to the dead letters of a queue, which has two."""
    await broker.policies.set("a", dead_letter=SharedDeadLetterStrategy(name))
    await bury(broker.queue("a"), ["x", "y"])


USES: dict[str, tuple[Act, Any]] = {
    "stats": (counts, {"ready": 1, "dead": 2}),
    "count": (lambda queue: queue.select(places=["ready", "dead"]).count(), 3),
    "purge": (lambda queue: queue.select("body = 'x'", places=["ready", "dead"]).purge(), 1),
    "purge all": (lambda queue: queue.select(places=["dead"], all=True).purge(), 2),
    "redrive": (lambda queue: moved(queue.dlq.redrive(limit=5)), 2),
}


async def moved(redrive: Awaitable[Any]) -> int:
    return int((await redrive).counts.moved)


@each_row_afresh("use", USES)
async def test_a_known_queue_becomes_a_shared_dead_letter_queue_too(use: str, broker: Any) -> None:
    lost = broker.queue("LOST")
    await lost.send("own")
    act, expected = USES[use]
    await act(lost)
    await lost.purge(all=True)
    await lost.send("own")
    await give(broker)
    assert await act(lost) == expected


async def test_letters_of_others_are_redriven_by_who_knew_the_name_for_its_own(broker: Any) -> None:
    letters = broker.queue("b").dlq
    await bury(broker.queue("b"), ["own"])
    assert (await letters.redrive(all=True)).counts.moved == 1
    await give(broker, "DLQ.b")
    shared = broker.queue("DLQ.b")
    assert (await shared.dlq.redrive(limit=5)).counts.moved == 2
    assert await counts(broker.queue("a")) == {"ready": 2}


async def test_a_view_becomes_a_queue(broker: Any) -> None:
    await give(broker)
    lost, other = broker.queue("LOST"), broker.queue("LOST")
    with pytest.raises(InvalidInput, match="has only the dead letters"):
        await lost.pause()
    assert await counts(lost) == {"dead": 2}
    await other.send("own")
    assert await counts(lost) == {"ready": 1, "dead": 2}
    assert await lost.pause() is True
    await broker.policies.remove("a")
    assert await counts(lost) == {"ready": 1}


async def test_what_was_a_queue_is_only_a_view_now(broker: Any) -> None:
    """The steps begin as for a queue; that refuses places which a view does not have."""
    lost = broker.queue("LOST")
    await lost.send("own")
    await give(broker)
    assert await counts(lost) == {"ready": 1, "dead": 2}
    await lost.delete(force=True)
    with pytest.raises(InvalidInput, match="has only the dead letters"):
        await lost.pause()
    with pytest.raises(InvalidInput, match="has only dead or expired messages"):
        await lost.select(places=["ready"]).count()
    assert await lost.select(places=["dead"]).count() == 2


async def test_a_deleted_queue_is_made_again_by_another_program(broker: Any) -> None:
    """What is paused is the queue that is there now, or a new one; it is listed in either case."""
    queue, other = broker.queue("orders", rate="9/s"), broker.queue("orders")
    await queue.send("x")
    await other.delete(force=True)
    await other.send("y")
    assert await queue.pause() is True
    assert (await other.stats()).paused is True
    assert (await queue.settings()).rate is not None, "its declaration is written again"
    await other.delete(force=True)
    assert await queue.pause() is True
    assert "orders" in await broker.queues()
    assert (await other.stats()).paused is True


async def test_steps_that_fail_before_the_answer_are_made_again(broker: Any) -> None:
    """A verb that a queue refuses is tried anew once it is known that the name is a view's."""
    await give(broker)
    core, made = broker.queue("LOST")._core, []

    def run(members: Any) -> Any:
        made.append([(member.keys.family, member.part) for member in members])
        if not core.view:
            raise InvalidInput("a queue may not")
        yield from ()
        return len(members)

    assert await broker._run(names.behind(core, run)) == 1
    assert made == [[("LOST", "live")], [("a", "dead")]]


async def test_the_question_rides_with_the_first_read(broker: Any) -> None:
    """One batch; a name that was given between that and the next step counts as given later."""
    queue = broker.queue("LOST")
    await queue.send("own")
    steps = queue.select(places=["ready", "dead"]).count
    trips, found = await trips_of(broker, steps)
    assert (trips, found) == (2, 1)
    counting = names.behind(queue._core, _sizes)
    first = next(counting)
    assert isinstance(first, Pipeline)
    replies = await broker._run(alone(first))
    await give(broker)
    second = counting.send(replies)
    with pytest.raises(StopIteration) as ended:
        counting.send(await broker._run(alone(second)))
    assert ended.value.value == [(1, 0)]


def _sizes(members: Any) -> Any:
    found = []
    for member in members:
        ready = yield calls.stats(member.keys, member.name)
        dead = yield calls.stats(member.keys, member.name)
        found.append((ready[1].ready, dead[1].dead))
    return found
