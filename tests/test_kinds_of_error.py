"""Which failures are of one kind (rq_dlq/values/wording.py), on usual texts: kinds_of_error.yaml."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import string
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import yaml

import rq_dlq.asyncio
from rq_dlq import Broker
from rq_dlq.errors import ConfigurationError, InvalidInput
from rq_dlq.values.codec import Ids
from rq_dlq.values.failure import Cause
from rq_dlq.values.fingerprint import PLACE, fingerprint
from rq_dlq.values.strings import strings_of
from rq_dlq.values.wording import LONGEST, wording
from tests.tables import each_row

TEXTS = yaml.safe_load((Path(__file__).parent / "kinds_of_error.yaml").read_text())
EACH = 400
NAMES = ["anna", "Bob", "O'Brien", "Zoë", "li wei", "max.muster", "eva_k", "d'Arc"]
OWN = ["acme", "Mega-Corp", "blue moon"]


def hexes(draw: Random, count: int) -> str:
    return "".join(draw.choices("0123456789abcdef", k=count))


def word(draw: Random) -> str:
    return "".join(draw.choices(string.ascii_lowercase, k=draw.randint(4, 9)))


def encoded(draw: Random, how: Callable[[bytes], bytes] = base64.b64encode) -> str:
    return how(draw.randbytes(draw.randint(12, 30))).decode()


def moment(draw: Random) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=draw.random() * 1e8)


def own_words(draw: Random) -> str:
    return f"{word(draw)} {word(draw)}"


def cell(draw: Random) -> str:
    return draw.choice(
        ["null", "t", "f", word(draw), "Ngo Thi Lan", str(draw.randint(1, 9_999)), str(moment(draw))]
    )


def host(draw: Random) -> str:
    return ".".join(str(draw.randint(1, 254)) for _ in range(4))


FILLED: dict[str, Callable[[Random], object]] = {
    "message_id": lambda _: next(Ids().drawn()),
    "object_id": lambda draw: hexes(draw, 24),
    "uuid": lambda draw: uuid.UUID(int=draw.getrandbits(128)),
    "uuid_upper": lambda draw: str(uuid.UUID(int=draw.getrandbits(128))).upper(),
    "uuid_bare": lambda draw: uuid.UUID(int=draw.getrandbits(128)).hex,
    "sha1": lambda draw: hexes(draw, 40),
    "short_sha": lambda draw: hexes(draw, 7),
    "sha256": lambda draw: hexes(draw, 64),
    "ulid": lambda draw: "01" + "".join(draw.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=24)),
    "nanoid": lambda draw: "".join(draw.choices(string.ascii_letters + string.digits + "_-", k=21)),
    "base64": encoded,
    "base64_url": lambda draw: encoded(draw, base64.urlsafe_b64encode),
    "jwt": lambda draw: "eyJ" + ".".join(encoded(draw).rstrip("=") for _ in range(3)),
    "pod": lambda draw: (
        f"orders-{hexes(draw, 9)}-{''.join(draw.choices('bcdfghjklmnpqrstvwxz2456789', k=5))}"
    ),
    "email": lambda draw: f"{word(draw)}.{word(draw)}@{word(draw)}.com",
    "path": lambda draw: f"/var/{word(draw)}/{word(draw)}.json",
    "word": word,
    "upper": lambda draw: word(draw).upper(),
    "name": lambda draw: draw.choice(NAMES),
    "time": moment,
    "http_date": lambda draw: moment(draw).strftime("%a, %d %b %Y %H:%M:%S GMT"),
    "written_date": lambda draw: moment(draw).strftime("%B %d, %Y %I:%M %p"),
    "byte": lambda draw: draw.randint(0, 255),
    "port": lambda draw: draw.randint(1024, 65535),
    "hex4": lambda draw: hexes(draw, 4),
    "hex12": lambda draw: hexes(draw, 12),
    "money": lambda draw: f"{draw.randint(1, 10**7):,}.{draw.randint(10, 99)}",
    "float": lambda draw: draw.random() * 10 ** draw.randint(-9, 9),
    "signed": lambda draw: draw.randint(-500, 500),
    "number": lambda draw: draw.randint(1, 10**6),
    "size": lambda draw: draw.choice(["900 MB", "1.2 GB", "7kB", "12 bytes", "1 byte"]),
    "duration": lambda draw: draw.choice(["5s", "1.5 s", "20 ms", "1h30m", "2 minutes", "1 minute"]),
    "rows": lambda draw: draw.choice(["1 row", "2 rows", "312 rows"]),
    "numbers": lambda draw: [draw.randint(1, 99) for _ in range(draw.randint(1, 6))],
    "dict": lambda draw: {word(draw): draw.randint(1, 9) for _ in range(draw.randint(1, 4))},
    "bytes": lambda draw: draw.randbytes(draw.randint(1, 12)),
    "long": lambda draw: draw.randint(10**6, 10**9),
    "constant": lambda draw: draw.choice(["true", "false", "null", "True", "False", "None"]),
    "own": lambda draw: draw.choice(OWN),
    "own_words": own_words,
    "blanks": lambda draw: " " * draw.randint(1, 60),
    "row": lambda draw: ", ".join(cell(draw) for _ in range(draw.randint(1, 6))),
    "parameters": lambda draw: {
        word(draw): draw.choice([True, None, 7, word(draw), moment(draw)]) for _ in "abc"
    },
    "hosts": lambda draw: " or ".join(host(draw) for _ in range(draw.randint(1, 3))),
    "refusals": lambda draw: {
        f"{host(draw)}:9042": ConnectionRefusedError(
            111, f"Tried {host(draw)}. Last error: Connection refused"
        )
        for _ in range(draw.randint(1, 4))
    },
    "members": lambda draw: ", ".join(
        f"<Server ({word(draw)!r}, 27017) kind: Unknown, rtt: {draw.choice([None, draw.random()])}, "
        f"error=AutoReconnect('{host(draw)}: [Errno 111] Connection refused')>"
        for _ in range(draw.randint(1, 3))
    ),
}


@each_row("form", TEXTS["one"])
def test_failures_of_one_cause_are_one_kind(form: dict[str, str]) -> None:
    draw = Random(form["of"])
    kinds: dict[str, str] = {}
    for _ in range(EACH):
        filled = {name: draw_one(draw) for name, draw_one in FILLED.items() if f"{{{name}" in form["text"]}
        text = form["text"].format(**filled)
        own = [str(value) for name, value in filled.items() if name.startswith("own")]
        kinds[fingerprint(form.get("error", "ValueError"), text, values=own)] = text
    assert len(kinds) == 1, {text: wording(text) for text in kinds.values()}


@each_row("form", TEXTS["several"])
def test_what_only_looks_alike_is_several_kinds(form: dict[str, Any]) -> None:
    error = form.get("error", "ValueError")
    assert len({fingerprint(error, text) for text in form["texts"]}) == len(form["texts"])


def test_a_class_that_derives_from_a_key_error_keeps_its_names() -> None:
    class MissingError(KeyError):
        pass

    assert Cause.of(MissingError("price")).fingerprint != Cause.of(MissingError("tenant")).fingerprint


def raised(function: Callable[..., object], *arguments: object) -> Cause:
    try:
        function(*arguments)
    except ValueError as error:
        trace = error.__traceback__
        return Cause.of(error.with_traceback(trace and trace.tb_next))  # without this function
    raise AssertionError("it did not fail")


def charge(body: str) -> object:
    return json.loads(body)


def refund(body: str) -> object:
    return json.loads(body)


def test_one_error_of_a_library_in_two_handlers_is_two_kinds() -> None:
    one, other = raised(charge, "{"), raised(refund, "{")
    assert one.message == other.message
    assert one.fingerprint[:PLACE] != other.fingerprint[:PLACE]
    assert one.fingerprint[PLACE:] == other.fingerprint[PLACE:]


def test_where_a_library_fails_does_not_matter() -> None:
    """The decoder fails in another of its functions, and says so: the same place, another wording."""
    one, other = raised(charge, "{"), raised(charge, "nonsense")
    assert one.fingerprint[:PLACE] == other.fingerprint[:PLACE]
    assert one.fingerprint != other.fingerprint


class PaymentError(Exception):
    """One wrapper for all causes."""


async def fail(kind: str, number: int) -> None:
    if kind == "key":
        dict[str, int]()["total"]
    if kind == "refused":
        raise ConnectionRefusedError(111, "Connection refused")
    raise ValueError(f"order {number} has no lines")


async def in_a_group(kind: str, number: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(1 + number % 3):  # how many fail is chance
            group.create_task(fail(kind, number))


async def explicitly(kind: str, number: int) -> None:
    try:
        await fail(kind, number)
    except Exception as error:
        raise PaymentError("payment failed") from error


async def implicitly(kind: str, number: int) -> None:
    try:
        await fail(kind, number)
    except (KeyError, OSError, ValueError):
        raise PaymentError("payment failed")  # noqa: B904 - as people write it


async def without_a_context(kind: str, number: int) -> None:
    try:
        await fail(kind, number)
    except (KeyError, OSError, ValueError):
        raise PaymentError("payment failed") from None


@each_row(("wrapper", "kinds"), [(in_a_group, 3), (explicitly, 3), (implicitly, 3), (without_a_context, 1)])
async def test_what_is_behind_an_error_says_what_kind_it_is(wrapper: Any, kinds: int) -> None:
    causes = list[Cause]()
    for kind in ("key", "refused", "value"):
        for number in range(1_000, 1_006):
            try:
                await wrapper(kind, number)
            except Exception as error:  # noqa: BLE001 - each of them
                causes.append(Cause.of(error))
    assert len({cause.fingerprint for cause in causes}) == kinds
    assert [cause.message.endswith("(caused by KeyError: 'total')") for cause in causes[:2]] == [
        kinds > 1
    ] * 2


def test_errors_that_are_behind_each_other() -> None:
    """Somebody raised one from the other, and back."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert Cause.of(one).message == "one (caused by ValueError: other)"


def test_what_is_said_of_the_cause_already_is_not_said_twice() -> None:
    error = RuntimeError("gave up: [Errno 111] Connection refused")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert Cause.of(error).message == str(error)


def test_depth_of_recursion_does_not_matter() -> None:
    def dig(depth: int) -> None:
        if depth == 0:
            raise ValueError("bottom")
        dig(depth - 1)

    assert raised(dig, 3).fingerprint == raised(dig, 30).fingerprint


@each_row("package", ["shop", "another"])
def test_a_handler_that_is_installed_is_the_users_code(package: str) -> None:
    """Its helpers count, too; another package does not."""
    site = Path(sys.modules["yaml"].__file__ or "").parent.parent  # where packages are installed

    def function(package: str, name: str, code: str, **known: object) -> Callable[..., object]:
        module = ModuleType(name)
        module.__dict__.update(known)
        exec(compile(code, str(site / package / f"{name}.py"), "exec"), module.__dict__)  # noqa: S102
        return module.__dict__[name]  # type: ignore[no-any-return]

    fail = "def {0}():\n    raise ValueError('no')"
    first, second = (function(package, name, fail.format(name)) for name in ("first", "second"))
    call = "def handler(call):\n    return call()"
    kinds = {raised(function("shop", "handler", call), helper).fingerprint for helper in (first, second)}
    assert len(kinds) == (2 if package == "shop" else 1)


def test_values_are_found_in_a_body() -> None:
    body = {"name": "anna", "n": 7, "inner": {"list": ["x", {"deep": "yes"}], "none": None}}
    assert sorted(strings_of(json.dumps(body).encode())) == ["anna", "x", "yes"]
    assert list(strings_of(b"\xff no json")) == []


@each_row(
    "text",
    [
        "'",
        " 'a",
        "„",
        "status ",
        "error code ",
        "column 'a",
        "1,",
        "a/",
        "aB",
        "/a?",
        "(a",
        "'a' is a required ",
        "got ",
        "'a b c ",
        "ab, ",
        "? or ",
        "<!--",
        "[parameters: ",
        "Failing row contains (",
        ")=(",
        "\n^",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """A pattern that backtracks would take minutes for these."""
    begin = time.process_time()
    wording(text * LONGEST)
    assert time.process_time() - begin < 1


async def test_dead_letters_are_grouped_by_what_is_not_their_own(broker: Any) -> None:
    """Their ids, headers and bodies name a customer; one error is of another place."""
    queue = broker.queue("orders")
    for name in ("anna", "bob", "carla"):
        await queue.send(
            {"customer": {"name": name}}, id=f"order of {name}", headers={"tenant": f"{name} inc"}
        )
    for delivery in await queue.claim(10):
        name = delivery.body["customer"]["name"]
        await delivery.poison(ValueError(f"{name} of {name} inc has no card, see order of {name}"))
    await queue.send("x")
    (delivery,) = await queue.claim()
    await delivery.poison(LookupError("another"))
    assert [group.count for group in await queue.dlq.groups()] == [3, 1]


async def test_a_group_is_chosen_by_its_place(broker: Any) -> None:
    """Six digits: all that one class of error said there."""
    queue = broker.queue("orders")
    await queue.send_many(range(3))
    for delivery, text in zip(await queue.claim(10), ("no card", "no plan", "no card"), strict=True):
        await delivery.poison(ValueError(text))
    many, one = await queue.dlq.groups()
    assert many.fingerprint[:PLACE] == one.fingerprint[:PLACE]
    assert len(await queue.dlq.browse(group=one.fingerprint)) == 1
    assert len(await queue.dlq.browse(group=one.fingerprint[:PLACE])) == 3
    with pytest.raises(InvalidInput, match="all twelve digits of its fingerprint, or the first six"):
        await queue.dlq.browse(group=one.fingerprint[:8])


def by_class(error: BaseException) -> str | None:
    assert not isinstance(error, LookupError), "a bug in the function"
    return None if isinstance(error, OSError) else "bad input"


def test_the_user_says_what_kind_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """A function of the broker. What it does not name, or fails for, has the usual kind."""
    core = Broker("redis://localhost", fingerprint=by_class).queue("orders")._core
    usual = [Cause.of(error).fingerprint for error in (LookupError("c"), OSError("d"))]
    cause = partial(core.client.cause, core.name)
    assert cause(ValueError("a")).fingerprint == cause(TypeError("b")).fingerprint
    with caplog.at_level(logging.ERROR):
        assert [cause(error).fingerprint for error in (LookupError("c"), OSError("d"))] == usual
    assert "the broker's fingerprint failed" in caplog.text
    with pytest.raises(ConfigurationError, match="pass a function of an exception"):
        Broker(fingerprint="by class")


@each_row("colour", [Broker, rq_dlq.asyncio.Broker])
def test_the_users_function_crosses_processes(colour: type[Any]) -> None:
    broker = pickle.loads(pickle.dumps(colour("redis://localhost", fingerprint=by_class)))  # noqa: S301
    assert broker.settings.fingerprint is by_class
