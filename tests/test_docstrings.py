"""The examples of public names show what they say, in both colours."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import traceback
from collections.abc import Awaitable
from contextlib import redirect_stdout
from doctest import DocTestParser, Example
from types import ModuleType
from typing import Any

import pytest

import rq_dlq
import rq_dlq.asyncio
from rq_dlq import _public
from tests.each import each
from tests.site import reference

PARSER = DocTestParser()
READ_ONLY = {"Delivery.remaining"}
"""Whose examples call other packages."""


def documented(colour: ModuleType) -> dict[str, str]:
    """The docstrings with examples of a colour, by the names of what they document."""
    awaited = {name: getattr(rq_dlq.asyncio, name) for name in rq_dlq.asyncio.__all__}
    texts = {}
    for name, one in (reference.names() if colour is rq_dlq else awaited).items():
        parts = {
            f"{name}.{part}": found for part, found in inspect.getmembers(one) if not part.startswith("_")
        }
        for path, found in {name: one, **parts}.items():
            text = inspect.getdoc(found) or ""
            if ">>>" in text and path not in READ_ONLY:
                texts[path] = text
    return texts


CASES = [
    (colour, path, text) for colour in (rq_dlq, rq_dlq.asyncio) for path, text in documented(colour).items()
]


@each("colour, path, text", CASES)
def test_an_example_shows_what_it_says(
    redis_socket: str, monkeypatch: pytest.MonkeyPatch, colour: Any, path: str, text: str
) -> None:
    monkeypatch.delenv("RQ_DLQ_NAMESPACE", raising=False)
    server, namespace = f"unix://{redis_socket}", f"{colour.__name__}-{path}"
    with rq_dlq.Broker(server, namespace=namespace) as setting:
        setting.queue("orders").send({"total": 9.5}, id="order-41")
        setting.queue("mails").send({"to": "bob"}, id="mail-1")
        setting.queue("mails").claim()[0].poison("no address")
    with asyncio.Runner() as runner:
        broker = colour.Broker(server, namespace=namespace)
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
            lines = "".join(traceback.format_exception_only(error))
            out.write(f"Traceback (most recent call last):\n{lines}")
    return out.getvalue()


def test_each_name_that_programs_use_most_has_an_example() -> None:
    have = {path for colour, path, _ in CASES if colour is rq_dlq}
    assert {*rq_dlq.asyncio.__all__} - have == {"Queue"}  # its verbs have
