"""What a later version wrote in a form of its own, held by someone or not."""

from __future__ import annotations

from typing import Any

import pytest

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.steps.call import Place
from tests.behaviour.helpers import AT_ONCE, one
from tests.behaviour.stepping import alone
from tests.format.test_later import LATER, Rewritten


@pytest.mark.parametrize(("form", "size"), [*((form, 1) for form in LATER), ("state", 5_000)])
async def test_where_it_is(size: int, form: str, broker: Any, raw: Any) -> None:
    """Who holds it is known in every form, no other place is."""
    queue = broker.queue("a", redelivery=AT_ONCE)
    names = await queue.send_many(["x" * size] * 3)
    await queue.claim(2)
    later = [Rewritten(raw, name, form) for name in names[1:]]
    expected: dict[Place | None, list[str]] = {"leased": names[:2], "ready": [], "dead": [], None: names}
    for place, there in expected.items():
        page = await broker._run(alone(page_calls.browse(queue._core.keys, ids=names, place=place)))
        assert [name.decode() for name in page.ids] == there, place
    for each in later:
        each.undo()


async def test_a_body_that_begins_like_it_is_none(broker: Any) -> None:
    queue = broker.queue("a", type=bytes, redelivery=AT_ONCE)
    await queue.send(b">=1.4 is not the form")
    for _ in range(2):
        assert (await (await one(queue)).nack()).outcome == "redelivered"
