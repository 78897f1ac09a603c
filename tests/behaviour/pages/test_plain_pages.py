"""Which pages of an index plain commands read, and which the script; test_scan.py has what they read."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq import RedeliveryPolicy
from rq_dlq._keys import QueueKeys
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import Page
from rq_dlq.core.pages.plain import plain_pages
from rq_dlq.core.pages.ranges import Range
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import Steps
from rq_dlq.values.wanted import Wanted
from tests.conftest import Clock

ALL = Wanted()
READY = Range(QueueKeys("rq", "a"), "ready", page_calls.START, page_calls.END)


def noted(steps: Steps[Page], verbs: list[str]) -> Steps[Page]:
    """The same steps; notes which scripts they run."""
    step = next(steps)
    while True:
        if isinstance(step, Call):
            verbs.append(step.verb)
        try:
            step = steps.send((yield step))
        except StopIteration as stop:
            page: Page = stop.value
            return page


async def read(broker: Any, limit: int, wanted: Wanted = ALL) -> tuple[list[Page], int]:
    """All pages of the ready messages, and how many scripts they took."""
    verbs: list[str] = []
    found = [await broker._run(noted(page, verbs)) for page in plain_pages(READY, limit=limit, wanted=wanted)]
    return found, len(verbs)


def ids(pages: list[Page]) -> list[str]:
    return [message_id.decode() for page in pages for message_id in page.ids]


@pytest.mark.parametrize("record", ["whole", "head", "no"])
async def test_only_the_first_page_and_the_last_take_a_script(record: Any, broker: Any, raw: Any) -> None:
    sent = await broker.queue("a").send_many(["x" * 100] * 10)
    pages, verbs = await read(broker, 3, Wanted(record, state=False, history=False))
    assert (ids(pages), verbs) == (sent, 2)
    whole = [raw.hget("rq:{a}:messages", name) for name in sent]
    wanted = {"whole": whole, "head": [record[:14] for record in whole], "no": []}[record]
    assert [cell for page in pages for cell in page.records] == wanted
    assert not any(page.states or page.histories for page in pages)


async def test_a_page_with_a_long_record_takes_a_script(broker: Any) -> None:
    bodies = ["long" * 1_000 if n in {4, 11} else n for n in range(20)]
    sent = await broker.queue("a").send_many(bodies)
    pages, verbs = await read(broker, 3)
    assert ids(pages) == sent
    assert 2 < verbs < len(pages)


@pytest.mark.parametrize(("failed", "plain"), [(15, True), (25, False)])
async def test_a_page_with_many_histories_takes_a_script(
    failed: int, plain: bool, broker: Any, raw: Any, clock: Clock
) -> None:
    queue = broker.queue("a", redelivery=RedeliveryPolicy(delays=["1s"]))
    await queue.send_many(range(failed))
    await queue.nack(await queue.claim(failed), "bad")
    clock.advance("1s")
    await queue.send_many(range(30), priority=9)
    await queue.send_many(range(30), priority=0)
    await queue.maintain()
    pages, verbs = await read(broker, 30)
    assert (verbs == 2) == plain
    names = ids(pages)
    assert len(names) == 60 + failed
    assert [cell for page in pages for cell in page.states] == raw.hmget("rq:{a}:states", names)
    assert [cell for page in pages for cell in page.histories] == raw.hmget("rq:{a}:history", names)


async def test_a_message_that_is_claimed_meanwhile_is_left_out(broker: Any) -> None:
    queue = broker.queue("a")
    sent = await queue.send_many(range(20))
    seen: list[str] = []
    taken: list[str] = []
    for page in plain_pages(READY, limit=4, wanted=ALL):
        seen += ids([await broker._run(page)])
        if len(seen) == 4:
            taken = [delivery.id for delivery in await queue.claim(10)][4:]
    assert seen == [name for name in sent if name not in taken]
