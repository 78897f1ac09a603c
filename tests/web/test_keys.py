"""What the pages say of keys."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import Message, PerKey
from rq_dlq.core.keyed import keyed
from tests.behaviour.helpers import one
from tests.web.conftest import TOKEN, Browser, Open
from tests.web.test_live import stream, told

ODD = "<b>Möller & 'Söhne'</b>"


async def shop(broker: Any, rule: PerKey, *keys: str) -> Any:
    """A queue with this rule, and for each key four messages."""
    queue = broker.queue("orders", per_key=rule)
    await queue.send_many([Message(n, id=f"{key[:40]}-{n}", key=key) for key in keys for n in range(4)])
    return queue


async def test_a_queue_lists_its_keys(pages: Browser, async_broker: Any) -> None:
    queue = await shop(async_broker, PerKey(order=True, on_dead="hold"), "customer-7")
    text = await pages.text("/queue", name="orders")
    assert "delivered one after the other, in the order of priority and sending; those behind a dead" in text
    assert "<b>3 messages</b> wait for their key" in text
    assert '/key?queue=orders&key=customer-7">customer-7</a>' in text
    assert '<td class="n strong">3</td><td class="n">1 of 1</td>' in text
    assert "not paused" in text
    await queue.key("customer-7").pause()
    await queue.send_many([Message(n, key=f"other-{n % 12}") for n in range(24)])
    text = await pages.text("/queue", name="orders")
    assert '<span class="chip warn">paused</span> until it is resumed' in text
    assert text.count('<tr id="key-') == 10


async def test_a_queue_without_a_rule_reads_no_keys(
    pages: Browser, async_broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = keyed.longest

    def longest(*given: Any, **options: Any) -> Any:
        asked.append(given)
        return real(*given, **options)

    monkeypatch.setattr(keyed, "longest", longest)
    await async_broker.queue("orders").send(1, key="customer-7")
    assert 'id="keys"' not in await pages.text("/queue", name="orders", keys="order")
    assert not asked
    assert "This queue has no rule for keys" in await pages.text("/key", queue="orders", key="customer-7")
    await async_broker.policies.set("orders", per_key="fair 2")
    assert "each has at most 2 messages in front" in await pages.text("/queue", name="orders")
    assert len(asked) == 1


async def test_the_page_of_a_key(pages: Browser, async_broker: Any) -> None:
    queue = await shop(async_broker, PerKey(order=True, on_dead="hold"), "customer-7")
    held = await one(queue)
    consumer = (await queue.key("customer-7").stats()).held_by[0][1]
    text = await pages.text("/key", queue="orders", key="customer-7")
    assert "it waits for its key customer-7: 1 in front; customer-7-0 is being processed at " in text
    assert "waiting since <time" in text
    for name in ("customer-7-0", "customer-7-1"):
        assert f'/message?queue=orders&id={name}">' in text
    assert f'<span class="chip live">leased</span></td><td class="grow">{consumer}</td>' in text
    await held.poison("no")
    text = await pages.text("/key", queue="orders", key="customer-7")
    assert "customer-7-0 is dead, and holds its lane until it is redriven" in text
    assert '<span class="chip bad">dead</span>' in text
    text = await pages.text("/key", queue="orders", key="customer-8")
    assert "No message waits for this key" in text
    assert "No message holds a seat" in text
    for given, says in (({}, "key=… is missing"), ({"key": "x" * 500}, "use text of 1 to 200 bytes")):
        answer = await pages.get("/key", queue="orders", **given)
        assert (answer.status_code, says in answer.text) == (400, True)
    assert (await pages.get("/key", queue="none", key="k")).status_code == 404


async def test_the_limit_and_the_rate_of_a_key(pages: Browser, async_broker: Any) -> None:
    queue = await shop(async_broker, PerKey(limit=2, rate="1/h"), "a")
    await one(queue)
    text = await pages.text("/key", queue="orders", key="a")
    assert "At most 2 messages of a key are ready or being processed at a time" in text
    assert "delivered at a rate of at most 1/h" in text
    assert "<dt>limit</dt><dd>2</dd><p>by the rule</p>" in text
    assert "next by the rate" in text
    await queue.key("a").limit(3)
    assert "<dt>limit</dt><dd>3</dd><p>its own</p>" in await pages.text("/key", queue="orders", key="a")
    assert "1 of 3" in await pages.text("/queue", name="orders")


async def test_more_holders_than_are_explained(pages: Browser, async_broker: Any) -> None:
    queue = async_broker.queue("orders", per_key=PerKey(limit=12))
    await queue.send_many([Message(n, key="a") for n in range(14)])
    text = await pages.text("/key", queue="orders", key="a")
    assert text.count('<span class="chip good">ready</span>') == 10
    assert "and 2 more: <code>rq-dlq key show orders" in text


async def test_a_key_is_paused_on_its_page(opened: Open, async_broker: Any) -> None:
    queue = await shop(async_broker, PerKey(order=True), ODD)
    await queue.key(ODD).pause(until="1h")
    text = await opened().text("/key", queue="orders", key=ODD)
    assert "<dd>yes</dd><p>until <time datetime=" in text
    assert "of=key&text=%3Cb%3EM" in text
    assert "verb=resume" in text
    pages = opened(token=TOKEN)
    pages.client.headers["authorization"] = f"Bearer {TOKEN}"
    text = await pages.text("/key", queue="orders", key=ODD)
    assert "<dd>yes</dd>" in text
    assert "verb=resume" not in text


async def test_keys_are_escaped_and_hidden(opened: Open, async_broker: Any) -> None:
    await shop(async_broker, PerKey(order=True), ODD, "token=LEAK")
    pages = opened()
    for answer in (
        await pages.get("/queue", name="orders"),
        await pages.get("/key", queue="orders", key=ODD),
    ):
        assert answer.status_code == 200
        assert "&lt;b&gt;Möller &amp; " in answer.text
        assert "<b>Möller" not in answer.text
        assert "key=token" not in answer.text
    for options, key in (({}, "token=LEAK"), ({"mask": ["key"]}, ODD)):
        pages = opened(**options)
        assert "***" in await pages.text("/queue", name="orders")
        answer = await pages.get("/key", queue="orders", key=key)
        assert (answer.status_code, "this key is hidden" in answer.text) == (400, True)


async def test_the_keys_are_live(pages: Browser, async_broker: Any) -> None:
    queue = await shop(async_broker, PerKey(order=True), "customer-7")
    link = (
        (await pages.text("/queue", name="orders")).partition('hx-sse:connect="/live?')[2].partition('"')[0]
    )
    assert link == "page=queue&name=orders&keys=order"
    async with stream(pages, link) as events:
        await told(events, "customer-7")
        await queue.send_many([Message(n, key="customer-8") for n in range(9)])
        text = await told(events, "customer-8")
        assert text.index("customer-8") < text.index("customer-7")
    assert (await pages.get("/live", page="queue", name="orders", keys="junk")).status_code == 400


async def test_messages_that_wait_for_a_dependency_wait_for_no_key(pages: Browser, async_broker: Any) -> None:
    queue = await shop(async_broker, PerKey(order=True), "customer-7")
    await queue.send_many([Message(n, key=f"other-{n}", dependency="payments") for n in range(20)])
    await queue.dependency("payments").pause()
    await queue.claim(30)
    text = await pages.text("/queue", name="orders")
    assert "<b>3 messages</b> wait for their key" in text
    assert text.count('<tr id="key-') == 1
