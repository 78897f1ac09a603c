"""The examples of public names show what they say, in both colours.

What the examples name is made once, and its keys are copied for each: three hundred examples cost half a
second more of CPU than seventy did.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import re
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import redirect_stdout
from doctest import DocTestParser, Example
from types import ModuleType
from typing import Any

import pytest
import redis

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import _public
from tests.site import reference
from tests.tables import each_row

PARSER = DocTestParser()
READ_ONLY = {
    "Delivery.remaining": "calls another package",
    "Broker.run": "is a worker, as in README, whose blocks run",
}
WITHOUT = {"DataLoss": "it takes a stream of Spark to raise it"}
"""Of the public names those without an example."""


def members(one: type) -> dict[str, object]:
    """What the reference shows of a public name."""
    inner = {*reference.INNER[""], *reference.INNER.get(one.__name__, ())}
    return {
        part: found
        for part, found in inspect.getmembers(one)
        if not part.startswith("_") and part not in inner
    }


def documented(colour: ModuleType) -> dict[str, str]:
    """The docstrings with examples of a colour, by the names of what they document; an inherited one once."""
    awaited = {name: getattr(rq_dlq.asyncio, name) for name in rq_dlq.asyncio.__all__}
    paths: dict[str, str] = {}
    for name, one in (reference.names() if colour is rq_dlq else awaited).items():
        for path, found in {name: one, **{f"{name}.{part}": it for part, it in members(one).items()}}.items():
            text = inspect.getdoc(found) or ""
            if ">>>" in text and path not in READ_ONLY:
                paths.setdefault(text, path)
    return {path: text for text, path in paths.items()}


CASES = [
    (colour, path, text) for colour in (rq_dlq, rq_dlq.asyncio) for path, text in documented(colour).items()
]


@pytest.fixture
def brokers(redis_socket: str) -> Iterator[Callable[[ModuleType, str], Any]]:
    """Makes a broker of a colour whose namespace has what examples name, copied from one: many want it."""
    server = f"unix://{redis_socket}"
    with rq_dlq.Broker(server, namespace="scene") as scene:
        scene.queue("orders").send({"total": 9.5}, id="order-41")
        scene.queue("mails").send({"to": "bob"}, id="mail-1")
        scene.queue("mails").claim()[0].poison("no address")
    with redis.Redis(unix_socket_path=redis_socket, decode_responses=True) as client:
        keys = [str(key) for key in client.keys("scene:*")]

        def broker_of(colour: ModuleType, namespace: str) -> Any:
            with client.pipeline() as pipeline:
                for key in keys:
                    pipeline.copy(key, namespace + key.removeprefix("scene"))
                pipeline.execute()
            return colour.Broker(server, namespace=namespace)

        yield broker_of


@each_row("colour, path, text", CASES)
def test_an_example_shows_what_it_says(
    brokers: Callable[[ModuleType, str], Any],
    monkeypatch: pytest.MonkeyPatch,
    colour: Any,
    path: str,
    text: str,
) -> None:
    monkeypatch.delenv("RQ_DLQ_NAMESPACE", raising=False)
    with asyncio.Runner() as runner:
        broker = brokers(colour, f"{colour.__name__}-{path}")
        names = {name: getattr(rq_dlq, name) for name in _public.__all__}
        names |= {"broker": broker, "orders": broker.queue("orders"), "mails": broker.queue("mails")}
        names |= {"Broker": colour.Broker}
        for example in PARSER.get_examples(text, path):
            begin, *end = example.want.split("…")  # in an error's text, which may be long
            got = shown(example, names, runner)
            assert got.startswith(begin) if end else got == begin, f"{path}: {example.source}"
        closed = broker.close()
        if closed is not None:
            runner.run(closed)


def shown(example: Example, names: dict[str, Any], runner: asyncio.Runner) -> str:
    """What it prints; of an error, its first and its last line, as the example has them."""
    code = compile(example.source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def awaited(coroutine: Awaitable[object]) -> None:
        await coroutine

    out = io.StringIO()
    with redirect_stdout(out):
        try:
            coroutine = eval(code, names)  # noqa: S307 - our own docstrings
            if inspect.isawaitable(coroutine):
                runner.run(awaited(coroutine))
        except Exception as error:  # noqa: BLE001 - what an example shows
            told = traceback.TracebackException.from_exception(error)
            told.__notes__ = None  # the command that prints its page, which ends each traceback
            out.write("".join(["Traceback (most recent call last):\n", *told.format_exception_only()]))
    return out.getvalue()


@each_row("name, one", sorted(reference.names().items()))
def test_each_name_its_verbs_and_its_properties_have_an_example(name: str, one: type) -> None:
    """A verb has its own; a property is in one of its class."""
    parts = members(one)
    texts = {part: inspect.getdoc(found) or "" for part, found in {name: one, **parts}.items()}
    wanted = {name, *(part for part, found in parts.items() if is_verb(found))} - WITHOUT.keys()
    lacks = {part for part in wanted if ">>>" not in texts[part]}
    of_class = (*texts.values(), *(inspect.getdoc(base) or "" for base in one.__mro__))
    shows = "\n".join(example.source for text in of_class for example in PARSER.get_examples(text))
    properties = {part for part, found in parts.items() if isinstance(found, property)}
    lacks |= {part for part in properties if not re.search(rf"\.{part}\b", shows)}
    assert not lacks, f"no example in {name} of: {', '.join(sorted(lacks))}"


def is_verb(found: object) -> bool:
    """Whether this is a function of ours."""
    function = inspect.unwrap(getattr(found, "__func__", found)) if callable(found) else None
    return inspect.isfunction(function) and function.__module__.startswith("rq_dlq")
