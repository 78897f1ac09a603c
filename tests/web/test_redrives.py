"""Redrives from the page: dry run, canary, progress, steering, the audit."""

from __future__ import annotations

import asyncio
from html import unescape
from typing import Any

from tests.behaviour.helpers import counts, one
from tests.web.conftest import Browser, Open, die, until


async def shown(pages: Browser, job: str, word: str) -> str:
    """The page of a redrive, once it has this word."""

    async def has_it() -> bool:
        return word in await pages.text("/redrive", queue="orders", id=job)

    await until(has_it)
    return await pages.text("/redrive", queue="orders", id=job)


async def come_to(queue: Any, **wanted: int) -> None:
    """Wait until a queue has these counts."""

    async def so() -> bool:
        return await counts(queue) == wanted

    await until(so)


async def begin(pages: Browser, page: str, **given: Any) -> Any:
    """Send the form of a page that begins a redrive, twice; both get the same answer."""
    text = (await pages.get(page, queue="orders", **given)).text
    form = text.partition('action="/redrive/begin')[2]
    plan = unescape(form.partition('name="plan" value="')[2].partition('"')[0])
    answers = [await pages.post("/redrive/begin", {"queue": "orders"}, plan=plan) for _ in range(2)]
    assert answers[0].status_code == answers[1].status_code == 303
    assert answers[0].headers["location"] == answers[1].headers["location"]
    return answers[0]


async def test_a_dry_run_moves_nothing(pages: Browser, orders: Any) -> None:
    await die(orders, *range(12))
    (group,) = await orders.dlq.groups()
    text = await pages.text("/group", queue="orders", id=group.fingerprint, plan=1, canary=5, rate=2)
    assert "12 dead letters" in text
    assert "<b>5</b> go first" in text
    assert "At most 2 a second" in text
    assert await counts(orders) == {"dead": 12}


async def test_the_terms_of_a_dry_run_can_be_changed(pages: Browser, orders: Any) -> None:
    await die(orders, *range(12))
    (group,) = await orders.dlq.groups()
    terms = {"canary": 5, "min_success": 80, "rate": 2.5}
    planned = (await pages.get("/group", queue="orders", id=group.fingerprint, plan=1, **terms)).text
    address = unescape(planned.partition('#redrive">Change')[0].rpartition('href="')[2])
    form = (await pages.get(address)).text
    assert all(f'value="{value}"' in form for value in terms.values())


async def test_a_canary_that_was_left_out_stays_out(pages: Browser, orders: Any) -> None:
    await die(orders, *range(12))
    (group,) = await orders.dlq.groups()
    planned = (await pages.get("/group?canary=", queue="orders", id=group.fingerprint, plan=1)).text
    address = unescape(planned.partition('#redrive">Change')[0].rpartition('href="')[2])
    form = (await pages.get(address)).text
    assert 'value="0"' in form.partition('name="canary"')[2].partition(">")[0]


async def test_a_dry_run_checks_its_terms(pages: Browser, orders: Any) -> None:
    """What a dry run offers can be begun; what is wrong is told in the form."""
    await die(orders, *range(12))
    (group,) = await orders.dlq.groups()

    async def planned(**terms: Any) -> str:
        return await pages.text("/group", queue="orders", id=group.fingerprint, plan=1, **terms)

    for terms, says in (
        ({"canary": 0, "min_success": 50}, "min_success needs a canary or a rate"),
        ({"canary": 3, "min_success": 150}, "pass a fraction, more than 0 and at most 1"),
        ({"canary": "many"}, "canary 'many' is not a number"),
        ({"rate": -1}, "pass messages a second"),
    ):
        text = await planned(**terms)
        assert says in text
        assert "Redrive all" not in text
        assert "Begin with the canary" not in text
        assert f'value="{[*terms.values()][-1]}"' in text
    assert "If fewer than 50 % of those that end" in await planned(rate=2, min_success=50)
    assert "If fewer than 99.5 % of them are acked" in await planned(canary=5, min_success=99.5)


async def test_what_died_again_is_a_click_away(pages: Browser, orders: Any) -> None:
    name, _ = await die(orders, *range(2))
    (group,) = await orders.dlq.groups()
    its_page = f"/group?queue=orders&id={group.fingerprint}"
    for where, page in (("/message", "/queue?name=orders"), ("/group", its_page)):
        given = {"id": name} if where == "/message" else {"id": group.fingerprint, "plan": "1"}
        answer = await begin(pages, where, **given)
        job = answer.headers["location"].partition("id=")[2]
        assert "died again." not in await shown(pages, job, "All have come back")
        await (await one(orders)).nack(ValueError("no answer from payments"))
        text = await shown(pages, job, "All have come back, and 1 of them died again.")
        assert f'href="{page}">Look at what died again' in text


async def test_a_redrive_of_a_group(pages: Browser, orders: Any, async_broker: Any) -> None:
    await die(orders, *range(3))
    (group,) = await orders.dlq.groups()
    answer = await begin(pages, "/group", id=group.fingerprint, plan="1")
    job = answer.headers["location"].partition("id=")[2]
    text = await shown(pages, job, "All have come back")
    assert "3 of 3" in text
    assert await counts(orders) == {"ready": 3}
    assert {(one.did, one.by) for one in await async_broker.audit()} == {
        ("started", "web: anna"),
        ("done", "web: anna"),
    }
    overview = await pages.text("/redrives")
    assert overview.count("web: anna") == 3


async def test_a_canary_that_is_steered(pages: Browser, orders: Any, async_broker: Any) -> None:
    await die(orders, *range(10))
    (group,) = await orders.dlq.groups()
    answer = await begin(pages, "/group", id=group.fingerprint, plan="1", canary="4")
    which = {"queue": "orders", "id": answer.headers["location"].partition("id=")[2]}
    assert "The canary of 4 is on its way" in await shown(pages, which["id"], "4 of 10")
    for verb, state in (("pause", "paused"), ("resume", "done"), ("undo", "undone")):
        assert (await pages.post(f"/redrive/{verb}", which)).status_code == 303
        assert f">{state}<" in await shown(pages, which["id"], f">{state}<")
    did = [one.did for one in await async_broker.audit()]
    assert did == ["undone", "done", "resumed", "paused", "started"]
    refused = await pages.post("/redrive/pause", which)
    assert refused.status_code == 400
    assert (await pages.post("/redrive/explode", which)).status_code == 404


async def test_two_redrives_at_once(pages: Browser, orders: Any) -> None:
    await die(orders, *range(5))
    (group,) = await orders.dlq.groups()
    form = {"id": group.fingerprint, "plan": "1"}
    page = (await pages.get("/group", queue="orders", **form)).text
    await asyncio.gather(begin(pages, "/group", **form), begin(pages, "/group", **form))
    await come_to(orders, ready=5)
    plan = unescape(page.partition('name="plan" value="')[2].partition('"')[0])
    late = await pages.post("/redrive/begin", {"queue": "orders"}, plan=plan)
    assert late.status_code == 409
    assert "they were redriven or removed in the meantime" in late.text


async def test_one_message(pages: Browser, orders: Any) -> None:
    name, other = await die(orders, 1, 2)
    await begin(pages, "/message", id=name)
    await come_to(orders, ready=1, dead=1)
    assert (await orders.explain(other)).place == "dead"


async def test_bad_terms_begin_nothing(pages: Browser, orders: Any) -> None:
    await die(orders, 1)
    (group,) = await orders.dlq.groups()
    for terms in ({"canary": "many"}, {"canary": "-1"}, {"rate": "nan"}, {"min_success": "1e999"}):
        text = await pages.text("/group", queue="orders", id=group.fingerprint, plan="1", **terms)
        assert "redrive/begin" not in text, terms
    assert (await pages.post("/redrive/begin", {"queue": "orders"})).status_code == 400
    assert await counts(orders) == {"dead": 1}


async def test_a_page_that_is_read_only(opened: Open, orders: Any) -> None:
    await die(orders, 1)
    (group,) = await orders.dlq.groups()
    pages = opened(write=False)
    text = await pages.text("/group", queue="orders", id=group.fingerprint, plan=1)
    assert "This page is read-only" in text
    assert 'method="post"' not in text
    answer = await pages.post("/redrive/begin", {"queue": "orders"}, group=group.fingerprint)
    assert answer.status_code == 403
    assert await counts(orders) == {"dead": 1}
