"""A body arrives whole or is refused: no field is hidden or left out in silence."""

from __future__ import annotations

import enum
import functools
import math
import re
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from rq_dlq import InvalidMessage
from rq_dlq.values.codec import Codec
from tests.behaviour.helpers import bodies
from tests.tables import each_row_afresh


def model(name: str, **fields: Any) -> Any:
    return pytest.importorskip("pydantic").create_model(name, **fields)


def login(secret: Any = None, **more: Any) -> Any:
    """A model with a secret."""
    kind = pytest.importorskip("pydantic").SecretStr if secret is None else secret
    return model("Login", user=(str, "anna"), password=(kind, ...), **more)


def account(kind: str = "define") -> Any:
    """A class of attrs with a field whose name begins with an underscore."""
    attrs = pytest.importorskip("attrs")
    fields = {"id": attrs.field(type=int), "_token": attrs.field(type=str, default="none")}
    return attrs.make_class("Acc", fields, frozen=kind == "frozen", slots=kind != "dict")


PLACES: dict[str, Any] = {
    "by itself": lambda body: body,
    "in a dict": lambda body: {"it": body},
    "in a list": lambda body: [1, [body]],
}


@each_row_afresh("place", PLACES)
@each_row_afresh("of", ["SecretStr", "SecretBytes", "Secret"])
@each_row_afresh("many", [False, True])
async def test_a_secret_is_refused(place: str, of: str, many: bool, broker: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    kind = login(getattr(pydantic, of)[str] if of == "Secret" else getattr(pydantic, of))
    body, queue = PLACES[place](kind(password="hunter2")), broker.queue("a")  # noqa: S106
    for _ in range(2):  # the second is refused by what was found of the class
        with pytest.raises(InvalidMessage, match=r"field password of Login .*get_secret_value\(\)") as raised:
            await (queue.send_many([body]) if many else queue.send(body))
        assert "hunter2" not in str(raised.value)
    assert await queue.claim() == []


async def test_a_queue_of_the_model_s_type_refuses_it_as_well(broker: Any) -> None:
    kind = login()
    with pytest.raises(InvalidMessage, match="field password of Login"):
        await broker.queue("a", type=kind).send(kind(password="hunter2"))  # noqa: S106
    await broker.queue("a", type=kind).send({"password": "in plain text"})
    (delivery,) = await broker.queue("a", type=kind).claim()
    assert delivery.body.password.get_secret_value() == "in plain text"


@pytest.mark.parametrize("inside", ["model", "dataclass", "list"])
async def test_a_nested_secret_is_refused(inside: str, broker: Any) -> None:
    kind: Any = login()
    held = [kind(password="hunter2")] if inside == "list" else kind(password="hunter2")  # noqa: S106
    hint: Any = list[kind] | None if inside == "list" else kind
    outer: Any = (
        make_dataclass("Outer", [("it", hint)]) if inside == "dataclass" else model("Outer", it=(hint, ...))
    )
    with pytest.raises(InvalidMessage, match="field password of Login"):
        await broker.queue("a").send(outer(it=held))


async def test_all_secrets_are_named(broker: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    kind = login(pin=(pydantic.SecretStr | None, None))
    with pytest.raises(InvalidMessage, match=r"fields password, pin of Login would arrive as '\*+'"):
        await broker.queue("a").send(kind(password="x"))  # noqa: S106


def _shown(self: Any, secret: Any) -> Any:
    del self
    return secret.get_secret_value()


@pytest.mark.parametrize("how", ["field", "annotation", "encoders"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_secret_with_a_serializer_is_sent(how: str, broker: Any) -> None:
    pydantic = pytest.importorskip("pydantic")
    show: Any = lambda secret: secret.get_secret_value()  # noqa: E731
    kind: Any = pydantic.SecretStr
    more: dict[str, Any] = {}
    if how == "annotation":
        kind = Annotated[kind, pydantic.PlainSerializer(show)]
    elif how == "field":
        more["__validators__"] = {"_": pydantic.field_serializer("password")(_shown)}
    else:
        more["__config__"] = {"json_encoders": {kind: show}}
    made = login(kind, **more)
    await broker.queue("a", type=made).send(made(password="hunter2"))  # noqa: S106
    (delivery,) = await broker.queue("a", type=made).claim()
    assert delivery.body.password.get_secret_value() == "hunter2"


async def test_a_field_that_its_model_excludes_stays_here(broker: Any) -> None:
    """The model says so itself."""
    pydantic = pytest.importorskip("pydantic")
    kept_here = pydantic.Field(pydantic.SecretStr(""), exclude=True)
    kind = model("Order", id=(int, ...), note=(pydantic.SecretStr, kept_here))
    await broker.queue("a").send(kind(id=1, note="fragile"))
    assert await bodies(broker.queue("a")) == [{"id": 1}]


@each_row_afresh("kind", ["define", "frozen", "dict"])
@each_row_afresh("typed", [False, True])
async def test_a_field_with_an_underscore_is_refused(kind: str, typed: bool, broker: Any) -> None:
    made = account(kind)
    queue = broker.queue("a", type=made if typed else None)
    why = "field _token of Acc would not be sent: rename it or use a dataclass"
    for _ in range(2):
        with pytest.raises(InvalidMessage, match=why):
            await queue.send(made(1, "t"))


async def test_a_nested_field_with_an_underscore_is_refused(broker: Any) -> None:
    made: Any = account()
    queue = broker.queue("a", type=dict[str, list[made]])
    with pytest.raises(InvalidMessage, match="field _token of Acc"):
        await queue.send({"all": [made(1, "t")]})
    await queue.send({"all": [{"id": 1, "_token": "t"}]})  # loses nothing
    (delivery,) = await queue.claim()
    assert delivery.body == {"all": [made(1, "t")]}
    outer: Any = make_dataclass("Outer", [("it", made)])
    with pytest.raises(InvalidMessage, match="field _token of Acc"):
        await broker.queue("b").send(outer(made(1, "t")))


def wrapped(inner: Any, _: int) -> Any:
    return [inner]


def within(inside: str, one: Any) -> Any:
    """A body that holds this."""
    if inside == "a dict":
        return {"note": "x", "it": one}
    if inside == "lists":
        return functools.reduce(wrapped, range(200), [1, (one,)])
    if inside == "an attrs object":
        return {"it": pytest.importorskip("attrs").make_class("Outer", ["it"])([one])}
    kind: Any = (make_dataclass if inside == "a dataclass" else msgspec.defstruct)("Outer", [("it", Any)])
    return kind(one)


INSIDE = ("a dict", "lists", "an attrs object", "a dataclass", "a struct")


@each_row_afresh("inside", INSIDE)
@each_row_afresh("kind", ["define", "frozen", "dict"])
@each_row_afresh("many", [False, True])
async def test_such_a_field_is_refused_wherever_it_is(
    inside: str, kind: str, many: bool, broker: Any
) -> None:
    """Also where no type says what a body holds."""
    queue, made = broker.queue("a"), account(kind)
    await queue.send(within(inside, {"id": 1, "_token": "t"}))
    for _ in range(2):
        body = within(inside, made(1, "t"))
        with pytest.raises(InvalidMessage, match="field _token of Acc would not be sent"):
            await (queue.send_many([body]) if many else queue.send(body))
    assert (await queue.stats()).waiting == 1


def test_a_body_that_contains_itself_is_refused() -> None:
    body: list[Any] = []
    body.append(body)
    with pytest.raises(InvalidMessage, match="cannot be encoded as JSON"):
        Codec[Any](Any, 1000).encode(body)


async def test_an_argument_of_a_task_with_such_a_field_is_refused(broker: Any) -> None:
    made: Any = account()

    def charge(account: Any) -> None: ...

    charge.__annotations__["account"] = made
    with pytest.raises(InvalidMessage, match="field _token of Acc"):
        await broker.task(charge).send(made(1, "t"))


async def test_a_dataclass_may_have_such_a_field(broker: Any) -> None:
    kind: Any = make_dataclass("Plain", [("_token", str)])
    await broker.queue("a", type=kind).send(kind("t"))
    (delivery,) = await broker.queue("a", type=kind).claim()
    assert delivery.body == kind("t")


async def test_a_class_that_names_itself_is_looked_at_once(broker: Any) -> None:
    await broker.queue("a", type=Node).send(Node([Node([])]))
    (delivery,) = await broker.queue("a", type=Node).claim()
    assert delivery.body == Node([Node([])])


@dataclass
class Node:
    inner: list[Node]


@each_row_afresh("kind", [bytearray, memoryview])
@each_row_afresh("of", [None, bytes])
async def test_a_buffer_is_sent_as_bytes(kind: Any, of: Any, broker: Any) -> None:
    queue = broker.queue("a", type=of)
    await queue.send(kind(b"\x00raw"))
    await queue.send_many([kind(b"more")])
    assert [delivery.body for delivery in await queue.claim(9)] == [b"\x00raw", b"more"]


class _Colour(enum.Enum):
    RED = "red"


@dataclass
class _Stock:
    of: dict[Any, int]


@each_row_afresh(
    ("body", "name"),
    [
        ({1: "a", "1": "b"}, "'1'"),
        ({"1": "b", 1: "a"}, "'1'"),
        ({"deep": [{"a": {2: 3, "2": 4}}]}, "'2'"),
        ({1.5: 1, "1.5": 2}, "'1.5'"),
        ({_Colour.RED: 1, "red": 2}, "'red'"),
        ({UUID(int=1): 1, str(UUID(int=1)): 2}, "'00000000-000"),
        (_Stock({7: 1, "7": 2}), "'7'"),
        ([{0: 1, "0": 2}], "'0'"),
    ],
)
@each_row_afresh("many", [False, True])
async def test_two_keys_that_are_one_in_json_are_refused(
    body: Any, name: str, many: bool, broker: Any
) -> None:
    queue = broker.queue("a")
    with pytest.raises(InvalidMessage, match=f"two keys of a dict would both be {re.escape(name)}"):
        await (queue.send_many([body]) if many else queue.send(body))
    assert await queue.claim() == []


@each_row_afresh(
    ("body", "arrives"),
    [
        ({1: "a"}, {"1": "a"}), ({"a": {"b": {2: 3}}}, {"a": {"b": {"2": 3}}}), ((1, 2), [1, 2]), ({1}, [1]),
        (frozenset([1]), [1]), (2**70, 2**70), (1.0, 1.0), (-0.0, -0.0), (1e22, 1e22), ("a\0b", "a\0b"),
        ({"x": b"\xff"}, {"x": "/w=="}), (b"\xff\x00", b"\xff\x00"), (UUID(int=5), str(UUID(int=5))),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00Z"), (timedelta(seconds=5), "PT5S"),
        (Decimal("1.10"), "1.10"), (_Colour.RED, "red"), ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ({"a": '":{', "b": {"a": 1}}, {"a": '":{', "b": {"a": 1}}),
    ],
)  # fmt: skip
async def test_what_json_makes_of_a_body(body: Any, arrives: Any, broker: Any) -> None:
    await broker.queue("a").send(body)
    (found,) = await bodies(broker.queue("a"))
    assert (found, type(found)) == (arrives, type(arrives))


@each_row_afresh(
    "body",
    [
        math.inf,
        Path("/a"),
        Fraction(1, 3),
        {None: 1},
        {True: 1},
        {(1, 2): 3},
        "\ud800",
        1 + 2j,
        range(3),
    ],
)
async def test_what_json_has_no_form_for_is_refused(body: Any, broker: Any) -> None:
    with pytest.raises(InvalidMessage):
        await broker.queue("a").send(body)
    assert await broker.queue("a").claim() == []
