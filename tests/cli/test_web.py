"""`rq-dlq web` starts only where somebody has thought of who may see it."""

from __future__ import annotations

import asyncio
import socket
import sys
from importlib import import_module
from typing import Any

import pytest

import rq_dlq.asyncio
from tests import servers
from tests.cli.conftest import Shell
from tests.needs import need
from tests.tables import each_row

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105 - of the tests

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(autouse=True)
def _needed() -> None:
    need("starlette", "web")


@each_row(
    ("words", "says"),
    [
        (("--listen", "0.0.0.0:8080"), "the page needs a login: pass --token"),
        (("--listen", "soon"), "is not an address: pass HOST:PORT"),
        (("--listen", "localhost:99999"), "is not an address: pass HOST:PORT"),
        (("--token", "short"), "which can be guessed: use at least 16"),
        (("--token", TOKEN, "--login-header", "x-user"), "either --token or --login-header"),
        (("--token", ""), "'--token'"),
        (("--token", " \n"), "'--token'"),
        (("--login-header", ""), "'--login-header'"),
        (("--host", "ops.example.com"), "ops.example.com can be reached from other machines"),
    ],
)
def test_it_refuses(shell: Shell, words: tuple[str, ...], says: str) -> None:
    assert says in shell("web", *words, code=2).stderr


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = shell("web", "--listen", str(port), code=2).stderr
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another" in told


@each_row("words", [(), ("--login-header", "x-user"), ("--host", "ops.example.com")])
@each_row("value", ["", " \n"])
def test_an_empty_variable_is_no_token(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], value: str
) -> None:
    """A typo in a compose file would open the page, or leave the login to whoever names a user."""
    monkeypatch.setenv("RQ_DLQ_WEB_TOKEN", value)
    told = shell("web", *words, code=2).stderr
    assert "$RQ_DLQ_WEB_TOKEN is empty" in told
    assert "unset RQ_DLQ_WEB_TOKEN" in told


def test_an_option_goes_before_an_empty_variable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RQ_DLQ_WEB_TOKEN", "")
    assert "which can be guessed" in shell("web", "--token", "short", code=2).stderr


def test_without_the_extra_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    told = shell("web", code=2).stderr
    assert "`rq-dlq web` needs the package uvicorn: pip install 'rq-dlq[web]'" in told


@each_row(
    ("words", "headers", "status", "writes"),
    [
        (("--read-only",), {}, 200, False),
        (("--token", TOKEN), {}, 401, False),
        (("--token", TOKEN), {"authorization": f"Bearer {TOKEN}"}, 200, True),
        (("--login-header", "X-User"), {}, 401, False),
        (("--login-header", "X-User", "--listen-all", "yes"), {"x-user": "anna"}, 200, False),
        (("--root-path", "/queues"), {}, 200, True),
        (("--root-path", "queues/"), {}, 200, True),
        (("--token", f"{TOKEN}\n"), {"authorization": f"Bearer {TOKEN}"}, 200, True),
        (("--token", TOKEN, "--host", "Ops.example.com"), {**BEARER, "host": "ops.example.com"}, 200, True),
        (("--token", TOKEN, "--host", "ops.example.com"), {**BEARER, "host": "evil.example"}, 400, False),
        (("--token", TOKEN), {**BEARER, "host": "ops.example.com"}, 400, False),
        (
            ("--login-header", "X-User", "--host", "a.example"),
            {"x-user": "a", "host": "b.example"},
            400,
            False,
        ),
    ],
)
def test_it_serves(
    shell: Shell, words: tuple[str, ...], headers: dict[str, str], status: int, writes: Any
) -> None:
    import uvicorn  # noqa: PLC0415 - the extra may be missing

    port, answers = servers.free_port(), list[Any]()
    listen = f"0.0.0.0:{port}" if "--listen-all" in words else str(port)
    words = words[: words.index("--listen-all")] if "--listen-all" in words else words

    def asked(server: Any, sockets: list[socket.socket]) -> None:
        url = f"http://127.0.0.1:{port}/"
        answers.append(asyncio.run(answer_of(server, sockets, url, headers, broker)))

    broker = rq_dlq.asyncio.Broker(shell.url, namespace=shell.namespace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("rq_dlq.cli.web"), "_awaiting", lambda _: broker)
        patch.setattr(uvicorn.Server, "run", asked)
        shell("web", "--listen", listen, *words)
    (answer,) = answers
    assert answer.status_code == status
    assert ('id="act"' in answer.text) == writes


async def answer_of(
    server: Any, sockets: list[socket.socket], url: str, headers: dict[str, str], broker: Any
) -> Any:
    """Run the server for one question."""
    import httpx  # noqa: PLC0415

    serving = asyncio.create_task(server.serve(sockets))
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(url, headers=headers)
    server.should_exit = True
    await serving
    await broker.close()  # which in a process of its own nobody needs to
    return answer


def test_it_is_a_process_that_a_signal_ends(shell: Shell) -> None:
    import httpx  # noqa: PLC0415

    port = servers.free_port()
    with shell.process("web", "--listen", str(port)) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"http://127.0.0.1:{port}/ (Ctrl-C ends it)\n"
        answer = httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
        assert (answer.status_code, 'id="act"' in answer.text) == (200, True)
        process.terminate()
        process.wait(60)
