"""The page acts: purge, redrive, edit, pause, resume; on ticked rows, what meets a condition, and on one."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest

from rq_dlq import Breaker, InvalidInput, LeaseLost
from rq_dlq.core.redrive.edits import rewriting
from rq_dlq.values.readable import many
from tests.behaviour.helpers import counts
from tests.conftest import Clock
from tests.tables import each_row, each_row_afresh
from tests.web.conftest import Browser, Open

ME = "web: anna"
BODIES: list[Any] = [{"n": n, "price": 9.5, "card": {"password": f"hunter{n}"}} for n in range(6)]
WAYS = ("ticked", "filter", "group", "one")


async def die(orders: Any, bodies: list[Any] | None = None) -> list[str]:
    sent: list[str] = [*await orders.send_many(BODIES if bodies is None else bodies)]
    await orders.poison(await orders.claim(len(sent)), "no route to the bank")
    return sent


async def chosen(orders: Any, way: str, ids: list[str]) -> tuple[dict[str, Any], int]:
    """What a form has in it, and how many messages that is."""
    (group,) = await orders.dlq.groups()
    ways: dict[str, tuple[dict[str, Any], int]] = {
        "ticked": ({"id": ids[:2]}, 2),
        "filter": ({"where": "body.n < 3"}, 3),
        "group": ({"group": group.fingerprint, "where": "body.n >= 2"}, 4),
        "one": ({"id": ids[:1]}, 1),
    }
    return ways[way]


async def sent(pages: Browser, answer: Any) -> Any:
    """Send the form that a page has, as it is."""
    text = answer.text
    form = re.search(r'<form method="post" action="([^"]*)">(.*?)</form>', text, re.DOTALL)
    assert form is not None, text
    fields: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[2]):
        fields.setdefault(name, []).append(unescape(value))
    for name, value in re.findall(r'<textarea name="(\w+)"[^>]*>(.*?)</textarea>', form[2], re.DOTALL):
        fields[name] = [unescape(value)]
    return await pages.client.post(unescape(form[1]), data=fields)


async def job_of(orders: Any, answer: Any) -> Any:
    assert answer.status_code == 303, answer.text
    job = await orders.dlq.job(answer.headers["location"].partition("id=")[2])
    while job.state == "running":
        await job.refresh()
    return job


@pytest.mark.parametrize("way", WAYS)
async def test_purge(way: str, pages: Browser, orders: Any, async_broker: Any) -> None:
    which, number = await chosen(orders, way, await die(orders))
    asks = await pages.get("/act", queue="orders", verb="purge", **which)
    assert f"<b>{many(number, 'dead letter')}</b> will be removed permanently" in asks.text
    assert await counts(orders) == {"dead": 6}
    done = await sent(pages, asks)
    assert f">{number} removed.<" in done.text
    assert await counts(orders) == ({"dead": 6 - number} if number < 6 else {})
    tile = re.search(r"<dt>dead</dt>\s*<dd[^>]*>(\d+)", await pages.text("/queue", name="orders"))
    assert tile is not None
    assert int(tile[1]) == 6 - number
    (record,) = await async_broker.audit()
    assert (record.did, record.by, record.number) == ("purged", ME, number)
    assert str(number) in await pages.text("/redrives")


async def test_letters_in_work_are_left(pages: Browser, orders: Any, async_broker: Any) -> None:
    """The page says how many, before; and where they are all that was chosen, after."""
    ids = await die(orders)
    (letter,) = await async_broker.queue("DLQ.orders").claim()
    asks = await pages.get("/act", queue="orders", verb="purge", id=ids)
    assert "<b>5 dead letters</b> will be removed permanently" in asks.text
    assert "1 dead letter being processed will stay." in asks.text
    asks = await pages.get("/act", queue="orders", verb="purge", id=ids[1:2])
    assert "being processed" not in asks.text
    (other,) = await async_broker.queue("DLQ.orders").claim()
    assert [letter.id, other.id] == ids[:2]
    answer = await sent(pages, asks)
    assert "0 of 1 removed; 1 is being processed, and stays." in answer.text
    await letter.release()


@each_row_afresh("held", [False, True])
async def test_cancel(held: bool, pages: Browser, orders: Any, async_broker: Any) -> None:
    message = await orders.send(BODIES[0], id="m")
    deliveries = await orders.claim() if held else []
    assert "Cancel …" in await pages.text("/message", queue="orders", id=message)
    asks = await pages.get("/act", queue="orders", verb="cancel", id=message)
    assert ("the result of its running call will not be counted" in asks.text) is held
    assert (await sent(pages, asks)).headers["location"] == "/redrives#audit"
    assert await counts(orders) == {}
    (record,) = await async_broker.audit()
    assert (record.did, record.by, record.chosen) == ("cancelled", ME, "m")
    assert (await sent(pages, asks)).status_code == 409  # it is gone by now
    for delivery in deliveries:
        with pytest.raises(LeaseLost):
            await delivery.ack()


async def test_a_form_cancels_the_message_that_it_showed(pages: Browser, orders: Any) -> None:
    """Not a later one with its id, when it is sent again."""
    await orders.send(BODIES[0], id="m")
    asks = await pages.get("/act", queue="orders", verb="cancel", id="m")
    assert (await sent(pages, asks)).status_code == 303
    await orders.send(BODIES[1], id="m")
    again = await sent(pages, asks)
    assert (again.status_code, "it is now unknown" in again.text) == (409, True)
    assert await counts(orders) == {"ready": 1}


@pytest.mark.parametrize("way", WAYS)
async def test_redrive(way: str, pages: Browser, orders: Any) -> None:
    which, number = await chosen(orders, way, await die(orders))
    asks = await pages.get("/act", queue="orders", verb="redrive", **which)
    assert "will be redriven to the queue, with a fresh budget" in asks.text
    job = await job_of(orders, await sent(pages, asks))
    assert (job.by, job.counts.moved) == (ME, number)
    assert await counts(orders) == {"ready": number, "dead": 6 - number}


@pytest.mark.parametrize("way", WAYS)
async def test_edit(way: str, pages: Browser, orders: Any, async_broker: Any) -> None:
    """What is hidden stays as it is; the dry run changes nothing."""
    which, number = await chosen(orders, way, await die(orders))
    asks = await pages.get("/act", queue="orders", verb="edit", **which)
    assert "hunter" not in asks.text
    edited: dict[str, Any] = {"price": 1.5}
    if way == "one":
        edited = {"n": 0, "price": 1.5, "card": {"password": "***"}}
        assert '"password": "***"' in unescape(asks.text)
    text = json.dumps(edited, indent=1).replace("\n", "\r\n")  # as a browser sends it
    tried = await pages.post("/act/edit", {"queue": "orders"}, **which, edit=text)
    assert f"<b>{many(number, 'dead letter')}</b> will be redriven, edited" in tried.text
    assert await counts(orders) == {"dead": 6}
    job = await job_of(orders, await sent(pages, tried))
    assert (job.by, job.how, job.counts.moved) == (ME, "edited", number)
    for message in await orders.peek():
        n = message.body["n"]
        assert message.body == {"n": n, "price": 1.5, "card": {"password": f"hunter{n}"}}
    assert {(one.did, one.by) for one in await async_broker.audit()} == {("started", ME), ("done", ME)}


async def test_what_steers_a_text_stays_in_a_body(pages: Browser, orders: Any) -> None:
    """It is visible in the field, and comes back as it was."""
    ids = await die(orders, [{"a": "x\u200by\u202ez\x1b\\u0041", "b": "</textarea><script>"}])
    asks = await pages.get("/act", queue="orders", verb="edit", id=ids[0])
    assert "\u200b" not in asks.text
    assert "<script>" not in asks.text.partition("<main")[2]
    text = unescape(asks.text.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0])
    edited = text.replace('"b"', '"c"')
    tried = await pages.post("/act/edit", {"queue": "orders"}, id=ids[0], edit=edited)
    await job_of(orders, await sent(pages, tried))
    (message,) = await orders.peek()
    assert message.body == {"a": "x\u200by\u202ez\x1b\\u0041", "c": "</textarea><script>"}


async def test_an_act_takes_no_more_than_it_said(pages: Browser, orders: Any, clock: Clock) -> None:
    await die(orders)
    asks = await pages.get("/act", queue="orders", verb="purge", where="body.n >= 0")
    clock.advance(1)
    await die(orders)
    done = await sent(pages, asks)
    assert ">6 removed; 6 more have died since, and stay.<" in done.text
    assert await counts(orders) == {"dead": 6}


@each_row_afresh("verb", ["purge", "redrive", "edit"])
async def test_twelve_were_shown_and_others_died_before_the_click(
    verb: str, pages: Browser, orders: Any, clock: Clock
) -> None:
    """A form that was sent again took five that were never shown."""
    ids = await die(orders, [{"n": n} for n in range(12)])
    asks = await pages.get("/act", queue="orders", verb=verb, where="body.n < 100")
    if verb == "edit":
        asks = await pages.post("/act/edit", {"queue": "orders"}, where="body.n < 100", edit='{"x": 1}')
    clock.advance(1)
    await orders.dlq.redrive(ids=ids[:1])
    await orders.poison(await orders.claim(), "dead again")
    await die(orders, [{"n": n} for n in range(5)])
    words = "1 is not there any more; 6 more have died since, and stay."
    answer = await sent(pages, asks)
    if verb == "purge":
        assert f">11 of 12 removed; {words}<" in answer.text
    else:
        job = await job_of(orders, answer)
        assert str(job.carried_out) + "." == f"11 of 12 moved back; {words}"
        assert f">11 of 12 moved back; {words}<" in await pages.text("/redrive", queue="orders", id=job.id)
    left = await counts(orders)
    assert left == ({"dead": 6} if verb == "purge" else {"ready": 11, "dead": 6})
    again = await sent(pages, asks)
    assert (again.status_code, again.headers.get("location")) == (
        answer.status_code,
        answer.headers.get("location"),
    )
    assert verb != "purge" or again.text == answer.text
    assert await counts(orders) == left


async def test_a_plan_is_good_for_an_hour(pages: Browser, orders: Any, clock: Clock) -> None:
    await die(orders)
    for verb in ("purge", "redrive"):
        asks = await pages.get("/act", queue="orders", verb=verb, where="body.n >= 0")
        clock.advance(3601)
        answer = await sent(pages, asks)
        assert answer.status_code == 400
        assert "the plan is more than an hour old, so nothing was done" in answer.text
    assert await counts(orders) == {"dead": 6}


async def test_a_forged_plan_is_refused(pages: Browser, orders: Any) -> None:
    """Without a plan of the page nothing is done, least of all to everything."""
    ids = await die(orders)
    asks = await pages.get("/act", queue="orders", verb="purge", id=ids[0])
    plan = unescape(asks.text.partition('name="plan" value="')[2].partition('"')[0])
    content, _, signature = plan.partition(".")
    fields = json.loads(base64.urlsafe_b64decode(content))
    fields[2], fields[6] = None, 1000
    wider = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
    for verb in ("purge", "redrive", "edit"):
        for text in (
            "",
            "x",
            f"{wider}.{signature}",
            f"{content}.{'0' * 64}",
            plan if verb != "purge" else ".",
        ):
            answer = await pages.post(f"/act/{verb}", {"queue": "orders"}, plan=text, edit="{}")
            assert answer.status_code == 400, (verb, text)
            assert "the form has no plan of this page, so nothing was done" in answer.text
    for form in ({}, {"id": ids[0]}, {"plan": plan}, {"plan": f"{wider}.{signature}"}):
        assert (await pages.post("/redrive/begin", {"queue": "orders"}, **form)).status_code == 400
    assert (await pages.post("/act/purge", {"queue": "mails"}, plan=plan)).status_code == 404
    assert await counts(orders) == {"dead": 6}
    assert ">1 removed.<" in (await pages.post("/act/purge", {"queue": "orders"}, plan=plan)).text


async def test_the_edit_that_was_tried_is_the_one_that_is_done(pages: Browser, orders: Any) -> None:
    await die(orders)
    tried = await pages.post("/act/edit", {"queue": "orders"}, where="body.n < 9", edit='{"x": 1}')
    plan = unescape(tried.text.partition('name="plan" value="')[2].partition('"')[0])
    answer = await pages.post("/act/edit", {"queue": "orders"}, plan=plan, edit='{"n": null}')
    assert answer.status_code == 400
    assert await counts(orders) == {"dead": 6}


async def test_an_edit_that_fits_some_only(pages: Browser, orders: Any) -> None:
    await die(orders, [{"n": 1}, 2, [3]])
    tried = await pages.post("/act/edit", {"queue": "orders"}, where="reason = 'poison'", edit='{"n": 9}')
    assert "2 dead letters cannot be edited this way" in unescape(tried.text)
    assert "not a JSON object" in tried.text
    job = await job_of(orders, await sent(pages, tried))
    assert (job.counts.moved, job.counts.refused) == (1, 2)


@each_row(
    "edit, words",
    [("{", "is not JSON"), ("[1]", "a patch is a JSON object"), ("", "is not JSON")],
)
async def test_what_is_no_edit_stands_in_the_form(edit: str, words: str, pages: Browser, orders: Any) -> None:
    if not await counts(orders):
        await die(orders)
    answer = await pages.post("/act/edit", {"queue": "orders"}, where="body.n < 9", edit=edit)
    assert words in unescape(answer.text)
    assert "will be redriven" not in answer.text


@dataclass
class Order:
    n: int
    price: float


async def test_an_edit_has_to_fit_the_type_that_is_known(
    opened: Open, orders: Any, async_broker: Any
) -> None:
    """In a program that also has the handlers; a page of its own does not know it."""
    typed = async_broker.queue("orders", type=Order)

    @typed.handler
    async def charge(order: Order) -> None:
        del order

    ids = await die(orders, [{"n": 1, "price": 2.5}])
    pages = opened()
    bad = await pages.post("/act/edit", {"queue": "orders"}, id=ids[0], edit='{"n": "one", "price": 2.5}')
    assert "cannot be edited this way" in unescape(bad.text)
    assert 'name="plan"' not in bad.text
    good = await pages.post("/act/edit", {"queue": "orders"}, id=ids[0], edit='{"n": 2, "price": 2.5}')
    await job_of(orders, await sent(pages, good))
    assert [message.body for message in await orders.peek()] == [{"n": 2, "price": 2.5}]


async def test_pause_and_resume_say_their_numbers(pages: Browser, orders: Any, async_broker: Any) -> None:
    await orders.send_many(range(5))
    await orders.claim(2)
    asks = await pages.get("/act", queue="orders", verb="pause")
    assert "3 messages will wait until it is resumed" in asks.text
    assert "2 messages being processed may finish" in asks.text
    assert not (await orders.stats()).paused
    assert (await sent(pages, asks)).status_code == 303
    assert (await orders.stats()).paused
    asks = await pages.get("/act", queue="orders", verb="resume")
    assert "3 messages will be delivered" in asks.text
    await sent(pages, asks)
    assert [(one.did, one.by) for one in await async_broker.audit()] == [("resumed", ME), ("paused", ME)]


@each_row_afresh("of", ["key", "dependency"])
async def test_a_part_of_a_queue_is_paused_and_resumed(of: str, pages: Browser, async_broker: Any) -> None:
    """The others go on; an apostrophe is text."""
    rule = {"per_key": "limit 8"} if of == "key" else {"breaker": "on"}
    orders = async_broker.queue("orders", **rule)
    for n in range(5):
        await orders.send(n, **{of: "bank's" if n < 3 else "mail"})
    form = {"queue": "orders", "of": of, "text": "bank's"}
    assert '<select name="of">' in await pages.text("/queue", name="orders")
    asks = await pages.get("/act", **form, verb="pause")
    assert "3 messages" in asks.text
    assert "will wait until they are resumed. All others continue" in asks.text
    assert (await sent(pages, asks)).status_code == 303
    assert [one.body for one in await orders.claim(9)] == [3, 4]
    asks = await pages.get("/act", **form, verb="resume")
    assert "3 messages" in asks.text
    await sent(pages, asks)
    assert [one.body for one in await orders.claim(9)] == [0, 1, 2]
    assert [(one.did, one.by) for one in await async_broker.audit()] == [("resumed", ME), ("paused", ME)]
    for wrong in ({"of": "tenant"}, {"text": ""}):
        assert (await pages.get("/act", **{**form, **wrong}, verb="pause")).status_code == 400


async def test_a_resume_in_an_outage_says_what_it_costs(
    pages: Browser, async_broker: Any, clock: Any
) -> None:
    """It closes the breaker, so it asks; a probe lets one in, and costs nothing."""
    orders = async_broker.queue("orders", breaker=Breaker(distinct=2))
    await orders.send_many(range(9), dependency="payments")
    clock.advance("6s")
    for one in await orders.claim(2):
        await one.nack("down")
    assert await orders.claim(9) == []
    form = {"queue": "orders", "of": "dependency", "text": "payments"}
    asks = await pages.get("/act", **form, verb="probe")
    assert (
        "One of the messages that need payments is delivered now. If it succeeds, the others follow"
        in asks.text
    )
    assert (await sent(pages, asks)).status_code == 303
    assert [one.did for one in await async_broker.audit(1)] == ["probed"]
    assert len(await orders.claim(9)) == 1
    asks = await pages.get("/act", **form, verb="resume")
    assert re.search(r"payments down since ..:.. UTC, \d wait", asks.text)
    assert (
        "It probes by itself, and there is nothing to do. If you close it now, failures will be" in asks.text
    )
    assert "Close payments" in asks.text
    careless = await pages.post("/queue/resume", {"name": "orders"}, of="dependency", text="payments")
    assert careless.status_code == 400
    assert (await orders.dependency("payments").stats()).open
    assert (await sent(pages, asks)).status_code == 303
    found = await orders.dependency("payments").stats()
    assert not found.open
    assert found.charged_until is not None
    assert "failures are charged until" in await pages.text("/")
    for of, verb in (("key", "probe"), ("", "probe")):
        assert (await pages.get("/act", queue="orders", of=of, text=of and "a", verb=verb)).status_code == 404
    assert (await pages.post("/queue/probe", {"name": "orders"})).status_code == 404


async def test_what_is_not_asked_right(pages: Browser, orders: Any) -> None:
    ids = await die(orders)
    for status, given in (
        (400, {"queue": "orders", "verb": "purge"}),
        (400, {"queue": "orders"}),
        (404, {"queue": "orders", "verb": "explode", "id": ids[0]}),
        (404, {"queue": "cheese", "verb": "purge", "id": ids[0]}),
    ):
        assert (await pages.get("/act", **given)).status_code == status, given
    assert "column" in (await pages.get("/act", queue="orders", verb="purge", where="body.n <")).text
    assert (await pages.post("/act/explode", {"queue": "orders"}, id=ids[0])).status_code == 404
    assert (await pages.post("/act/purge", {"queue": "orders"})).status_code == 400
    assert (await pages.post("/act/purge", {"queue": "orders"}, id=ids[0])).status_code == 400
    assert await counts(orders) == {"dead": 6}
    asks = await pages.get("/act", queue="orders", verb="redrive", id=ids[0])
    await orders.dlq.purge(ids=ids[:1])
    assert (await sent(pages, asks)).status_code == 409


async def test_a_page_that_is_read_only_does_nothing(opened: Open, orders: Any) -> None:
    ids = await die(orders)
    pages = opened(write=False)
    (group,) = await orders.dlq.groups()
    for path, given in (
        ("/group", {"queue": "orders", "id": group.fingerprint}),
        ("/message", {"queue": "orders", "id": ids[0]}),
        ("/queue", {"name": "orders"}),
    ):
        text = await pages.text(path, **given)
        assert "checkbox" not in text
        assert "Purge" not in text
    for verb in ("purge", "pause"):
        assert (await pages.get("/act", queue="orders", verb=verb, id=ids[0])).status_code == 403
    for verb in ("purge", "redrive", "edit", "cancel"):
        answer = await pages.post(f"/act/{verb}", {"queue": "orders"}, id=ids[0], number="1", edit="{}")
        assert answer.status_code == 403
    assert await counts(orders) == {"dead": 6}


def test_what_was_not_touched_is_kept() -> None:
    body = {"a": 1, "secret": "s", "list": [{"token": "t", "n": 1}, {"n": 2}], "old": True}
    shown = {"a": 1, "secret": "***", "list": [{"token": "***", "n": 1}, {"n": 2}], "old": True}
    edited = {"a": True, "secret": "***", "list": [{"token": "***", "n": 5}, {"n": 2}], "new": [1]}
    assert rewriting(shown, edited)(body) == {
        "a": True, "secret": "s", "list": [{"token": "t", "n": 5}, {"n": 2}], "new": [1],
    }  # fmt: skip
    assert rewriting(shown, shown)(body) == body
    assert rewriting(shown, {**edited, "secret": 0})(body)["secret"] == 0
    for lost in ({"moved": "***"}, {"list": [{"token": "***"}]}, "***"):
        with pytest.raises(InvalidInput, match="a hidden value"):
            rewriting(shown, lost)(body)


@pytest.mark.parametrize("way", ["get", "try"])
async def test_a_secret_is_not_found_by_trying(way: str, pages: Browser, orders: Any) -> None:
    await die(orders)
    for where in (
        "body.card.password = 'hunter1'",
        "n = 1 or body.card.Password > 'a'",
        'header."x-token" = 1',
    ):
        given = {"queue": "orders", "verb": "purge"}
        if way == "get":
            answer = await pages.get("/act", **given, where=where)
        else:
            answer = await pages.post("/act/edit", given, where=where, edit="{}")
        assert answer.status_code == 400, where
        assert "is hidden on this page" in answer.text
    fine = await pages.get("/act", queue="orders", verb="purge", where="error like '%password%' or n = 1")
    assert fine.status_code == 200
