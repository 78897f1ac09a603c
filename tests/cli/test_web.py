"""`rq-dlq web` starts only where somebody has thought of who may see it."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

from tests import servers
from tests.cli.conftest import Shell
from tests.needs import need

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105 - of the tests

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(autouse=True)
def _needed() -> None:
    need("starlette", "web")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--listen", "0.0.0.0:8080"), "the page wants a login: pass --token"),
        (("--listen", "soon"), "is not an address: pass HOST:PORT"),
        (("--listen", "localhost:99999"), "is not an address: pass HOST:PORT"),
        (("--token", "short"), "which can be guessed: use at least 16"),
        (("--token", TOKEN, "--login-header", "x-user"), "either --token or --login-header"),
        (("--token", ""), "'--token'"),
        (("--token", " \n"), "'--token'"),
        (("--login-header", ""), "'--login-header'"),
        (("--host", "ops.example.com"), "ops.example.com can be reached from elsewhere"),
    ],
)
def test_it_refuses(shell: Shell, words: tuple[str, ...], says: str) -> None:
    assert says in shell("web", *words, code=2).stderr


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = shell("web", "--listen", str(port), code=2).stderr
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another" in told


@pytest.mark.parametrize("words", [(), ("--login-header", "x-user"), ("--host", "ops.example.com")])
@pytest.mark.parametrize("value", ["", " \n"])
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


@pytest.mark.parametrize(
    ("words", "headers", "status", "writes"),
    [
        ((), {}, 200, True),
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
    redis_socket: str, words: tuple[str, ...], headers: dict[str, str], status: int, writes: Any
) -> None:
    import httpx  # noqa: PLC0415 - the extra may be missing

    port = servers.free_port()
    listen = f"0.0.0.0:{port}" if "--listen-all" in words else str(port)
    words = words[: words.index("--listen-all")] if "--listen-all" in words else words
    command = [sys.executable, "-m", "rq_dlq", "web", "--listen", listen, "--url", f"unix://{redis_socket}"]
    with subprocess.Popen([*command, *words], stderr=subprocess.DEVNULL) as process:
        try:

            def answers() -> bool:
                try:
                    return bool(httpx.get(f"http://127.0.0.1:{port}/static/icon.svg").status_code)
                except httpx.TransportError:
                    return False

            servers.wait_until(answers)
            answer = httpx.get(f"http://127.0.0.1:{port}/", headers=headers)
            assert answer.status_code == status
            assert ('id="act"' in answer.text) == writes
        finally:
            process.terminate()
