"""Unique tasks: equal calls have one id, and one of them is known until it is done, or for a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from rq_dlq import ConfigurationError, InvalidDuration, InvalidInput, InvalidMessage
from tests.audit import audit
from tests.behaviour.faults import lose_replies
from tests.behaviour.helpers import counts, one
from tests.behaviour.sending.test_known_ids import told
from tests.conftest import Clock
from tests.tables import each_row

SEEN: list[Any] = []
NUMBERS = count()


def syncing(broker: Any, **options: Any) -> Any:
    @broker.task(queue="a", **options)
    async def sync(user: int, deep: bool = False, *, tags: dict[str, int] | None = None) -> None:
        SEEN.append((user, deep, tags))

    return sync


async def test_equal_calls_have_one_id_however_they_are_made(broker: Any) -> None:
    sync = syncing(broker, unique=True)
    first = await sync.send(7)
    assert first.startswith("sync-")
    equal = [
        await sync.send(user=7),
        await sync.send(7, False),
        await sync.send(deep=False, user=7, tags=None),
        (await sync.send_many([(7,), {"user": 7}]))[1],
    ]
    assert [told(one) for one in equal] == [(False, "ready", None)] * 4
    assert {*map(str, equal)} == {str(first)}
    one_way, other = await sync.send(7, tags={"a": 1, "b": 2}), await sync.send(7, tags={"b": 2, "a": 1})
    assert (one_way.new, other.new) == (True, False)
    assert (await sync.send(8)).new
    assert (await sync.send(7, deep=True)).new
    assert await counts(broker.queue("a")) == {"ready": 4}


async def test_tasks_of_one_queue_have_their_own_ids(broker: Any) -> None:
    sync = syncing(broker, unique=True)

    @broker.task(queue="a", unique=True)
    async def other(user: int, deep: bool = False, *, tags: dict[str, int] | None = None) -> None:
        del user, deep, tags

    assert (await sync.send(7)).new
    assert (await other.send(7)).new


@each_row(
    "choose",
    [
        lambda user: user,
        lambda user, **_: user,
        lambda *, user, **_: user,
        lambda deep, user: (user, deep) if user == 8 else user,
        lambda **given: given["user"],
    ],
)
async def test_a_function_gets_the_arguments_by_the_names_of_the_parameters(
    broker: Any, choose: Callable[..., Any]
) -> None:
    """It takes those that count, whether the call passes them by place, by name, or not at all."""
    name = f"sync-{next(NUMBERS)}"
    sync = syncing(broker, unique=choose, key=lambda user, **_: f"user-{user}", name=name)
    sent = [await sync.send(7), await sync.send(7, True), await sync.send(deep=True, user=7)]
    sent += await sync.send_many([(7, False), {"user": 7}])
    assert [one.new for one in sent] == [True, False, False, False, False]
    assert len({*map(str, sent)}) == 1
    (message,) = [one for one in await broker.queue("a").peek(10) if one.headers["task"] == name]
    assert message.key == "user-7"


@each_row("choose", [lambda u: u, lambda u=None, *_: u, lambda *given: given[0], lambda u, /: u, str])
async def test_a_function_with_other_names_gets_the_arguments_as_they_are_passed(
    broker: Any, choose: Callable[..., Any]
) -> None:
    name = f"sync-{next(NUMBERS)}"
    sync = syncing(broker, unique=choose, name=name)
    assert ((await sync.send(7)).new, (await sync.send(7)).new, (await sync.send(8)).new) == (
        True,
        False,
        True,
    )


async def test_a_function_names_the_part_that_counts(broker: Any) -> None:
    sync = syncing(broker, unique=lambda user, **_: user)
    assert (await sync.send(7)).new
    assert told(await sync.send(7, deep=True, tags={"a": 1})) == (False, "ready", None)
    assert (await sync.send(8)).new


async def test_a_call_is_new_once_it_is_done(broker: Any) -> None:
    queue, sync = broker.queue("a"), syncing(broker, unique=True)
    await sync.send(7)
    delivery = await one(queue)
    assert told(await sync.send(7)) == (False, "leased", None)
    await delivery.ack()
    assert (await sync.send(7)).new


async def test_a_dead_one_is_redriven(broker: Any) -> None:
    queue, sync = broker.queue("a"), syncing(broker, unique=lambda user, **_: user)
    await sync.send(7)
    await (await one(queue)).poison("bad")
    assert told(await sync.send(7, tags={"new": 1})) == (False, "dead", "redriven")
    assert (await one(queue)).body == {"user": 7, "tags": {"new": 1}}


async def test_it_is_known_for_an_hour_from_its_first_send(broker: Any, raw: Any, clock: Clock) -> None:
    queue, sync = broker.queue("a"), syncing(broker, unique=True, unique_for="1h")
    first = await sync.send(7)
    clock.advance("30m")
    assert told(await sync.send(7)) == (False, "ready", None)
    await (await one(queue)).ack()
    audit(raw, "a")
    assert 0 < raw.pttl("rq:{a}:acked_ids") <= 3_600_000
    lost = await lose_replies(broker, "resend")
    assert (told(await sync.send(7)), lost.runs) == ((False, "acked", None), 2)
    explained = await queue.explain(str(first))
    assert (explained.place, "stays known" in explained.why) == ("gone", True)
    clock.advance("29m")
    assert told(await sync.send(7)) == (False, "acked", None)
    clock.advance("1m")
    again = await sync.send(7)
    assert told(again) == (True, None, None)
    clock.advance("2h")
    await (await one(queue)).ack()  # its hour is over before its ack
    assert (await sync.send(7)).new
    audit(raw, "a")


async def test_what_was_not_done_is_not_known(broker: Any, clock: Clock) -> None:
    """Cancelled, purged: the next send is new. Dead: it is redriven, in the hour of the first send."""
    queue, sync = broker.queue("a"), syncing(broker, unique=True, unique_for="1h")
    sent = await sync.send(7)
    assert await queue.cancel(sent) == "cancelled"
    assert (await sync.send(7)).new
    await queue.purge(all=True)
    assert (await sync.send(7)).new
    clock.advance("10m")
    await (await one(queue)).poison("bad")
    assert told(await sync.send(7)) == (False, "dead", "redriven")
    await (await one(queue)).ack()
    assert told(await sync.send(7)) == (False, "acked", None)
    clock.advance("50m")
    assert (await sync.send(7)).new


async def test_a_dedup_window_and_unique_for_go_together(broker: Any, raw: Any, clock: Clock) -> None:
    queue = broker.queue("a", dedup_window="1m")
    sync = syncing(broker, unique=True, unique_for="1h")
    await sync.send(7)
    await (await one(queue)).ack()
    for n in range(3):
        clock.advance("2m")
        await queue.send("x", id=f"m{n}")
        await (await one(queue)).ack()
        assert raw.pttl("rq:{a}:acked_ids") > 3_000_000
    assert told(await sync.send(7)) == (False, "acked", None)
    audit(raw, "a")
    clock.advance("55m")
    assert (await sync.send(7)).new


async def test_one_more_run_stays_unique(broker: Any) -> None:
    queue = broker.queue("a")
    sync = syncing(broker, unique=True, unique_for="1h").options(on_duplicate="again")
    await sync.send(7)
    delivery = await one(queue)
    assert told(await sync.send(7)) == (False, "leased", "again")
    await delivery.ack()
    assert told(await sync.send(7)) == (False, "ready", None)
    await (await one(queue)).ack()
    assert told(await sync.send(7)) == (False, "acked", None)


async def test_options_of_one_call(broker: Any) -> None:
    sync = syncing(broker, unique=True)
    await sync.send(7)
    assert (await sync.options(id=None).send(7)).new
    assert await sync.options(id="mine").send(7) == "mine"
    replaced = await sync.options(on_duplicate="replace", priority=9).send(7)
    assert told(replaced) == (False, "ready", "replaced")
    with pytest.raises(Exception, match="already"):
        await sync.options(on_duplicate="raise").send(7)


@each_row(
    "options, error",
    [
        ({"unique": "yes"}, ConfigurationError),
        ({"unique_for": "1h"}, ConfigurationError),
        ({"unique": True, "unique_for": "soon"}, InvalidDuration),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], sync_broker: Any) -> None:
    with pytest.raises(error):
        syncing(sync_broker, **options)


async def test_arguments_that_do_not_fit(broker: Any) -> None:
    sync = syncing(broker, unique=True)
    with pytest.raises(InvalidMessage, match="cannot be called like this"):
        await sync.send()
    wrong = syncing(broker, unique=lambda: 1, name="wrong")
    with pytest.raises(InvalidMessage, match="the function of its id failed"):
        await wrong.send(7)


async def test_where_it_is_refused(broker: Any) -> None:
    queue, sync = broker.queue("b"), syncing(broker, unique=True)
    await queue.send("x")
    delivery = await one(queue)
    with pytest.raises(InvalidInput, match=r"options\(id=None\)"):
        await delivery.ack(send=[(sync, (7,))])
    await delivery.ack(send=[(sync.options(id=None), (7,))])
    async with broker.gather(then=(queue, "then")) as gather:
        with pytest.raises(InvalidInput, match="a gather"):
            await gather.options(sync).send(7)
        await gather.cancel()
