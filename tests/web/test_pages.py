"""What the pages say."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

from msgspec.structs import replace

from rq_dlq import Breaker
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.values.process import ConsumerReport, ProcessReport
from tests.behaviour.helpers import one
from tests.web.conftest import ONCE, Browser, Open, die


async def test_without_queues_all_is_well(pages: Browser) -> None:
    text = await pages.text("/")
    assert "All is well" in text
    assert "There are no queues yet" in text


async def test_the_overview_names_the_growing_group(pages: Browser, orders: Any) -> None:
    await die(orders, *range(3))
    text = await pages.text("/")
    (group,) = await orders.dlq.groups()
    assert "1 thing to look at" in text
    assert "new, growing: ValueError: no answer from payments" in text
    assert "3 dead letters within the last hour, 3 in all" in text
    assert f"/group?queue=orders&id={group.fingerprint}" in text


async def test_the_overview_says_what_stands_still(
    pages: Browser, orders: Any, async_broker: Any, clock: Any
) -> None:
    await orders.send(1)
    await async_broker.queue("mail").send(1)
    await async_broker.queue("mail").pause()
    clock.advance("10m")
    text = await pages.text("/")
    assert "1 ready, the oldest for 10m, and no consumer takes them" in text
    assert "no consumer holds a message: start one" in text
    assert "paused until it is resumed, 1 waiting" in text
    assert '<span class="sub-inline">until it is resumed</span>' in text


async def test_calls_that_hang_are_not_too_few_workers(
    pages: Browser, orders: Any, async_broker: Any, clock: Any
) -> None:
    """While nothing has failed yet, the workers' reports say all that is known."""
    await orders.send_many(range(9))
    await orders.claim(4, lease="1h")
    clock.advance("70s")
    reporter = Reporter(
        ProcessReport("web-1:4711", queues={"orders": ConsumerReport(4, held=4, oldest=70.0)})
    )
    await async_broker._run(reporter.note(async_broker.settings.namespace))
    text = await pages.text("/")
    assert (
        "1 worker holds 4 messages, the oldest for 1m10s: if that is usual, start more workers; if not"
        in text
    )
    assert "keep up" not in text


async def test_an_outage_is_the_first_thing_on_the_page(
    pages: Browser, orders: Any, async_broker: Any, clock: Any
) -> None:
    """Before any group of dead letters; its messages are in the tiles, and `oldest` is theirs."""
    await die(orders, *range(3))
    mail = async_broker.queue("mail", breaker=Breaker(distinct=2))
    await mail.send_many(range(4), dependency="smtp")
    for failing in await mail.claim(2):
        await failing.nack(ConnectionError("refused"), delay=0)
    assert await mail.claim(9) == []
    clock.advance("40s")
    text = await pages.text("/")
    assert "2 things to look at" in text
    first, second = re.findall('<span class="what">(.*?)</span>', text)
    assert re.match(r"smtp down since (..-.. )?..:.. UTC, 4 wait, the oldest 40s, next probe", first)
    assert "growing" in second
    assert "nothing to do: it probes by itself; the newest error: ConnectionError: refused" in text
    assert "<dt>wait for a dependency</dt><dd>4</dd>" in text
    assert "<dt>oldest waits</dt><dd>40s</dd>" in text
    text = await pages.text("/queue", name="mail")
    assert "smtp down since" in text
    assert "<dt>wait for a dependency</dt><dd>4</dd><p>oldest 40s</p>" in text


async def test_all_is_well_and_something_waits_for_a_decision(
    pages: Browser, orders: Any, clock: Any
) -> None:
    await die(orders, *range(3))
    clock.advance("10m")
    text = await pages.text("/")
    assert '<section class="status good"' in text
    assert "All is well" in text
    assert "3 dead letters wait for a decision" in text
    (group,) = await orders.dlq.groups()
    muted = await pages.post("/group/mute", {"queue": "orders", "id": group.fingerprint})  # reads anew
    assert muted.status_code == 303
    assert "for a decision" not in await pages.text("/")


async def test_the_search_finds_queues_and_groups(pages: Browser, orders: Any, async_broker: Any) -> None:
    await die(orders, 1)
    await async_broker.queue("mail").send(1)
    found = await pages.text("/", q="MAI")
    assert "/queue?name=mail" in found
    assert "/queue?name=orders" not in found
    assert "Groups of dead letters" in await pages.text("/", q="payments")
    assert "No queue has" in await pages.text("/", q="nothing of it")


async def test_the_search_does_not_find_what_is_hidden(pages: Browser, orders: Any) -> None:
    await die(orders, 1, error="no login with password=hunter2")
    for words, found in (("no login with", True), ("hunter2", False), ("password=h", False)):
        assert ("Groups of dead letters" in await pages.text("/", q=words)) == found, words


async def test_the_page_of_a_queue(pages: Browser, orders: Any) -> None:
    await die(orders, 1, 2)
    waiting = await orders.send({"next": True})
    text = await pages.text("/queue", name="orders")
    assert "ValueError: no answer from payments" in text
    assert waiting in text
    assert "redelivery.max_redeliveries" in text
    assert "dead-lettered after 0 redeliveries" in text


async def test_the_page_of_a_group(pages: Browser, orders: Any) -> None:
    ids = await die(orders, *range(25))
    (group,) = await orders.dlq.groups()
    text = await pages.text("/group", queue="orders", id=group.fingerprint)
    assert "attempt 1: failed" in text  # the story of the newest
    assert all(text.count(f"id={name}") for name in ids[5:])
    older = await pages.text("/group", queue="orders", id=group.fingerprint, letters=2)
    assert all(older.count(f"id={name}") for name in ids[:5])
    assert not older.count(f"id={ids[10]}")


async def test_the_story_of_a_message(pages: Browser, orders: Any, clock: Any) -> None:
    (name,) = await die(orders, {"number": 7, "card": {"secret": "4711"}}, headers={"tenant": "acme"})
    clock.advance("5m")
    await orders.dlq.redrive(ids=[name])
    text = await pages.text("/message", queue="orders", id=name)
    assert "it was redriven, with a fresh budget" in text
    assert text.index("attempt 1: failed") < text.index("<b>redriven</b>") < text.index("next: ")
    assert '"number": 7' in text
    assert "acme" in text
    assert "4711" not in text
    await one(orders)
    assert "a consumer is processing attempt 2" in await pages.text("/message", queue="orders", id=name)


async def test_secrets_in_a_text_that_is_json(pages: Browser, orders: Any) -> None:
    inner = json.dumps({"a": json.dumps({"password": "LEAK"}), "b": 7})
    for body in ({"inner": inner}, inner, inner.encode()):
        text = await pages.text("/message", queue="orders", id=await orders.send(body))
        assert "LEAK" not in text
        assert "password" in text


async def test_a_body_that_is_no_json(pages: Browser, orders: Any) -> None:
    name = await orders.send(b"\xff\x00")
    assert '"base64": "/wA="' in await pages.text("/message", queue="orders", id=name)


async def test_what_is_gone_is_not_here(pages: Browser, orders: Any) -> None:
    await orders.open()
    for path, given, says in (
        ("/queue", {"name": "nope"}, "there is no queue 'nope'"),
        ("/group", {"queue": "orders", "id": "abcdef012345"}, "its dead letters were redriven or removed"),
        ("/group", {"queue": "orders", "id": "*"}, "there is no group"),
        ("/message", {"queue": "orders", "id": "gone"}, "no trace: it was never sent here"),
        ("/redrive", {"queue": "orders", "id": "gone"}, "there is no redrive 'gone'"),
        ("/nowhere", {}, "Not Found"),
    ):
        answer = await pages.get(path, **given)
        assert (answer.status_code, says in answer.text.replace("&#39;", "'")) == (404, True), path
    assert (await pages.get("/queue")).status_code == 400
    assert (await pages.get("/group", queue="orders", id="expired", letters="x")).status_code in {400, 404}


async def test_the_names_of_dead_letters_lead_to_their_queues(
    pages: Browser, orders: Any, async_broker: Any
) -> None:
    await async_broker.policies.set("shop.#", dead_letter={"strategy": "shared", "name": "SHOP.DEAD"})
    await die(orders, 1)
    await die(async_broker.queue("shop.mail", redelivery=ONCE), 1, 2)
    for name, queue in (("DLQ.orders", "orders"), ("EXP.orders", "orders"), ("SHOP.DEAD", "shop.mail")):
        answer = await pages.get("/queue", name=name)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/queue?name={queue}"), name
    await die(async_broker.queue("shop.bills", redelivery=ONCE), 1)
    text = await pages.text("/queue", name="SHOP.DEAD")
    for queue, number in (("shop.bills", 1), ("shop.mail", 2)):
        assert f'/queue?name={queue}">{queue}</a></td><td>dead messages</td><td class="n">{number}<' in text
    answer = await pages.get("/message", queue="SHOP.DEAD", id="1")
    assert answer.status_code == 404
    assert "those of shop.bills, shop.mail" in answer.text
    assert "there is no queue" in unescape((await pages.get("/queue", name="DLQ.nope")).text)


async def test_without_workers(pages: Browser) -> None:
    assert "No worker reports" in await pages.text("/workers")


async def test_workers_are_shown(pages: Browser, async_broker: Any) -> None:
    reporter = Reporter(ProcessReport("web-1:4711", queues={"orders": ConsumerReport(3)}))
    began = datetime.now(UTC) - timedelta(days=3)
    await async_broker._run(reporter.note(async_broker.settings.namespace, started_at=began))
    text = await pages.text("/workers")
    assert "<b>web-1:4711</b>" in text
    assert '<td class="wide">3d</td>' in text


def test_a_worker_is_up_until_it_is_silent() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    report = ProcessReport(started_at=began, seen_at=began + timedelta(seconds=30))
    assert [replace(report, ago=ago).up for ago in (0.0, 10.0, 40.0)] == [30, 40, 30]


async def test_policies_are_shown_and_simulated(pages: Browser, async_broker: Any) -> None:
    text = await pages.text("/policies")
    assert "There are no entries" in text
    assert "Messages a second after it <input" in text
    await async_broker.policies.set("orders.#", redelivery={"max_redeliveries": 3, "initial_delay": "1s"})
    text = await pages.text("/policies", queue="orders.new", messages=50, outage="10s", rate="5")
    assert "<b>orders.#</b>" in text
    assert "dead-lettered after 3 redeliveries" in text
    assert "50 messages fail together" in text
    for bad in ({"queue": "a b"}, {"queue": "a", "outage": "soon"}, {"queue": "a", "messages": "many"}):
        assert (await pages.get("/policies", **bad)).status_code == 400, bad


async def test_settings_are_shown_as_people_read_them(pages: Browser, async_broker: Any) -> None:
    await async_broker.policies.set(
        "orders.#", expiry={"max_expiry_delay": "7d", "retention": None}, redelivery={"max_delay": "10m"}
    )
    says = "redelivery: max_delay 10m, delays none; expiry: max_expiry_delay 7d, retention forever"
    assert f">{says}<" in await pages.text("/policies")
    await async_broker.queue("orders").open()
    text = await pages.text("/queue", name="orders")
    for field, value in (("redelivery.max_delay", "10m"), ("expiry.retention", "forever")):
        assert f"<td>{field}</td><td>{value}</td>" in text


async def test_schedules_are_listed(pages: Browser, orders: Any) -> None:
    assert "There are no schedules" in await pages.text("/schedules")
    await orders.schedule("nightly", {}, cron="0 7 * * *")
    text = await pages.text("/schedules")
    assert "nightly" in text
    assert "0 7 * * *" in text


async def test_a_queue_is_paused_and_resumed(pages: Browser, orders: Any, async_broker: Any) -> None:
    await orders.send(1)
    assert (await pages.post("/queue/pause", {"name": "orders"})).status_code == 303
    assert (await orders.stats()).paused
    text = await pages.text("/queue", name="orders")
    assert '<span class="chip warn">paused</span> until it is resumed' in text
    assert "paused until it is resumed, 1 waiting" in text
    assert "/act?verb=resume&queue=orders" in text
    assert (await pages.post("/queue/resume", {"name": "orders"})).status_code == 303
    assert not (await orders.stats()).paused
    assert "/act?verb=pause&queue=orders" in await pages.text("/queue", name="orders")
    assert [(one.did, one.by) for one in await async_broker.audit()] == [
        ("resumed", "web: anna"),
        ("paused", "web: anna"),
    ]
    assert (await pages.text("/redrives")).count("web: anna") == 2
    assert (await pages.post("/queue/delete", {"name": "orders"})).status_code == 404


async def test_the_end_of_a_pause_is_shown(opened: Open, orders: Any) -> None:
    await orders.pause(until="1h")
    pages = opened(write=False)
    for page in ("/queue", "/"):
        assert re.search(r"paused</span>[^/]*until <time", await pages.text(page, name="orders"))


async def test_a_page_that_is_read_only_pauses_nothing(opened: Open, orders: Any) -> None:
    await orders.send(1)
    pages = opened(write=False)
    text = await pages.text("/queue", name="orders")
    assert "/queue/pause" not in text
    assert "/act" not in text
    assert (await pages.post("/queue/pause", {"name": "orders"})).status_code == 403
    assert not (await orders.stats()).paused


async def test_a_group_is_muted_and_unmuted(pages: Browser, orders: Any, async_broker: Any) -> None:
    await orders.send(1)
    await orders.poison(await orders.claim(), "no route to the bank")
    (group,) = await orders.dlq.groups()
    which = {"queue": "orders", "id": group.fingerprint}
    assert "new: no route to the bank" in await pages.text("/")
    assert (await pages.post("/group/mute", which, until="4h")).status_code == 303
    text = await pages.text("/group", **which)
    assert "Unmute" in text
    assert ">muted<" in text
    assert "All is well" in await pages.text("/")
    assert (await pages.post("/group/unmute", which)).status_code == 303
    assert "Mute for" in await pages.text("/group", **which)
    assert (await pages.post("/group/mute", which, until="soon")).status_code == 400
    assert (await pages.post("/group/mute", {**which, "id": "0" * 12})).status_code == 404
    did = [(one.did, one.by) for one in await async_broker.audit()]
    assert did == [("unmuted", "web: anna"), ("muted", "web: anna")]


async def test_a_queue_is_counted_by_a_header(pages: Browser, orders: Any) -> None:
    for n in range(5):
        await orders.send(n, headers={"tenant": "acme" if n else "<tiny>", "token": "hunter2"})
    await orders.claim(1)
    text = await pages.text("/queue", name="orders", count_by="tenant")
    assert re.search(r">acme</td><td class=\"n\">4<", text)
    assert "4 messages." in text
    assert "<tiny>" in await pages.text("/queue", name="orders", count_by="tenant", place="leased")
    text = await pages.text("/queue", name="orders", count_by="token", place="leased")
    assert "hunter2" not in text
    assert "without it" in await pages.text("/queue", name="orders", count_by="nothing")
    assert "no such messages" in await pages.text("/queue", name="orders", count_by="tenant", place="dead")


async def test_a_queue_lists_what_waits_for_others(pages: Browser, orders: Any, async_broker: Any) -> None:
    reports = async_broker.queue("reports")
    async with async_broker.gather(then=(reports, "then")) as gather:
        for name in ("page-1", "page-2"):
            await gather.send(orders, name, id=name)
    await (await orders.claim())[0].ack()
    text = await pages.text("/queue", name="reports")
    assert "Messages that wait for others" in text
    assert f"/message?queue=reports&id={gather.id}" in text
    assert "page-2" in text
    assert "Messages that wait for others" not in await pages.text("/queue", name="orders")
    told = await pages.text("/message", queue="orders", id="page-2")
    assert f"a child of the gather {gather.id}, whose `then` is in reports" in told
