"""Types of bodies: the records of each library cross whole, and what does not fit is named."""

from __future__ import annotations

import types
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pytest

from rq_dlq import InvalidMessage
from tests.tables import each_row_afresh
from tests.variants import both_colours


@dataclass
class Plain:
    id: int
    at: datetime


class Struct(msgspec.Struct):
    id: int
    at: datetime


class Typed(TypedDict):
    id: int
    at: datetime


def attrs_class() -> Any:
    return pytest.importorskip("attrs").make_class(
        "Attrs", {"id": _attribute(int), "at": _attribute(datetime)}
    )


def _attribute(kind: Any) -> Any:
    return pytest.importorskip("attrs").field(type=kind)


def model() -> Any:
    """A pydantic model as FastAPI's users write them: a name of its own on the wire, no other fields."""
    pydantic = pytest.importorskip("pydantic")
    fields: dict[str, Any] = {"id": (int, pydantic.Field(alias="orderId")), "at": (datetime, ...)}
    config = {"extra": "forbid", "populate_by_name": True}
    return pydantic.create_model("Model", __config__=config, **fields)


KINDS: dict[str, Any] = {
    "dataclass": lambda: Plain,
    "msgspec": lambda: Struct,
    "TypedDict": lambda: Typed,
    "attrs": attrs_class,
    "pydantic": model,
}


def inside(kind: Any) -> Any:
    return types.GenericAlias(dict, (str, types.GenericAlias(list, (kind,))))


NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


@each_row_afresh("name", KINDS)
async def test_a_body_comes_back_as_what_it_was(name: str, broker: Any) -> None:
    kind = KINDS[name]()
    queue = broker.queue("a", type=kind)
    await queue.send(kind(id=1, at=NOON))
    (delivery,) = await queue.claim()
    assert delivery.body == kind(id=1, at=NOON)
    assert type(delivery.body) is type(kind(id=1, at=NOON))


@each_row_afresh("name", KINDS)
async def test_inside_other_types(name: str, broker: Any) -> None:
    kind: Any = KINDS[name]()
    queue = broker.queue("a", type=inside(kind))
    await queue.send({"both": [kind(id=1, at=NOON), kind(id=2, at=NOON)]})
    (delivery,) = await queue.claim()
    assert delivery.body == {"both": [kind(id=1, at=NOON), kind(id=2, at=NOON)]}


@each_row_afresh("name", KINDS)
async def test_a_queue_of_any_type_takes_them(name: str, broker: Any) -> None:
    queue = broker.queue("a")
    await queue.send(KINDS[name]()(id=1, at=NOON))
    (delivery,) = await queue.claim()
    assert delivery.body == {"orderId" if name == "pydantic" else "id": 1, "at": "2026-09-01T12:00:00Z"}


@each_row_afresh("name", KINDS)
@each_row_afresh("listed", [False, True])
async def test_what_does_not_fit_says_where(name: str, listed: bool, broker: Any) -> None:
    kind = KINDS[name]()
    row = {"id": "a secret", "orderId": "a secret", "at": NOON}
    await broker.queue("a").send({"both": [row]} if listed else row)
    assert await broker.queue("a", type=inside(kind) if listed else kind).claim() == []
    (message,) = await broker.queue("a").select(all=True).browse()
    (event,) = message.history
    assert event.event == "passed_on"
    assert "cannot be decoded as" in event.cause.message
    assert "id" in event.cause.message or "orderId" in event.cause.message
    assert "a secret" not in str(message.history)


class Stranger:
    """A class that tells nobody its fields."""


@pytest.mark.parametrize("kind", [Stranger, 1, "Order"])
async def test_another_type_is_refused_by_what_would_do(kind: Any, broker: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"use JSON values, bytes, a dataclass, .* or a pydantic model"):
        broker.queue("a", type=kind)


async def test_a_body_of_another_type_is_refused_by_what_would_do(broker: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"Stranger cannot be encoded .* send JSON values, .*dataclass"):
        await broker.queue("a").send(Stranger())


async def test_a_stranger_inside_another_type_is_named_when_it_comes(broker: Any) -> None:
    await broker.queue("a").send([{}])
    assert await broker.queue("a", type=list[Stranger]).claim() == []
    (resting,) = await broker.queue("a").select(places=["scheduled"]).browse()
    assert "Stranger is not supported; use JSON values" in resting.history[-1].cause.message


async def test_a_model_with_a_number_that_json_lacks_is_refused(broker: Any) -> None:
    kind = pytest.importorskip("pydantic").create_model("Model", total=(float, ...))
    with pytest.raises(InvalidMessage, match=r"body\['total'\] is nan"):
        await broker.queue("a").send(kind(total=float("nan")))


@each_row_afresh("name", KINDS)
@each_row_afresh("many", [False, True])
async def test_a_body_that_no_consumer_could_read_is_not_sent(name: str, many: bool, broker: Any) -> None:
    kind = KINDS[name]()
    queue = broker.queue("a", type=kind)
    wrong = {"id": "a secret", "orderId": "a secret", "at": NOON}
    with pytest.raises(
        InvalidMessage, match=rf"does not fit the queue's type {kind.__name__}: .*[iI]d"
    ) as raised:
        await (queue.send_many([wrong]) if many else queue.send(wrong))
    assert "a secret" not in str(raised.value)
    await queue.send(
        {"id": 1, "orderId": 1, "at": NOON} if name != "pydantic" else {"orderId": 1, "at": NOON}
    )
    assert len(await queue.claim(9)) == 1


async def test_an_instance_with_a_wrong_field_is_not_sent(broker: Any) -> None:
    wrong: Any = "7"
    with pytest.raises(InvalidMessage, match=r"type Plain: Expected `int`, got `str` - at `\$.id`"):
        await broker.queue("a", type=Plain).send(Plain(wrong, NOON))


async def test_json_in_bytes_is_checked_as_well(broker: Any) -> None:
    queue = broker.queue("a", type=Plain)
    await queue.send(b'{"id":1,"at":"2026-09-01T12:00:00Z"}')
    with pytest.raises(InvalidMessage, match="does not fit the queue's type Plain"):
        await queue.send(b"1")
    (delivery,) = await queue.claim(9)
    assert delivery.body == Plain(1, NOON)


async def test_an_instance_of_a_subclass_is_decoded_as_the_queue_s_type(broker: Any) -> None:
    @dataclass
    class More(Plain):
        note: str = ""

    queue = broker.queue("a", type=Plain)
    await queue.send(More(1, NOON, "fragile"))
    (delivery,) = await queue.claim()
    assert delivery.body == Plain(1, NOON)
    assert b"fragile" in delivery.data


async def test_none_is_no_type(broker: Any) -> None:
    queue = broker.queue("a", type=None)
    await queue.send_many([{"id": 1}, b"raw"])
    assert [delivery.body for delivery in await queue.claim(9)] == [{"id": 1}, b"raw"]


@pytest.mark.parametrize("way", ["claim", "consume"])
@both_colours("the loop is in the files `own.py`")
async def test_a_body_that_cannot_be_read_is_a_line_of_the_log(way: str, broker: Any, caplog: Any) -> None:
    await broker.queue("a").send("x\n", id="m")
    await broker.queue("a").send(b"x\n", id="n")
    queue = broker.queue("a", type=Plain)
    if way == "claim":
        assert await queue.claim(2) == []
    else:
        assert [delivery async for delivery in queue.consume()] == []
    unfit, unread = caplog.messages
    assert unfit.startswith("a m is not delivered: the body cannot be decoded as Plain: Expected `object`")
    assert unfit.endswith("; it is passed on to another version of the program")
    assert unread.startswith("a n is not delivered: the body cannot be decoded as Plain: JSON is malformed")
    assert unread.endswith("; it is dead")
