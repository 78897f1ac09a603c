"""`rq-dlq mcp`, asked by the client of the protocol's SDK."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from tests.cli.conftest import Shell
from tests.needs import need
from tests.servers import Server, needed
from tests.servers.acl import acl_file
from tests.servers.started import Started

CALLS: Mapping[str, dict[str, Any]] = {
    "queues": {},
    "groups": {"queue": "orders"},
    "dead_letters": {"queue": "orders"},
    "explain": {"queue": "orders", "id": "order-1"},
    "plan_redrive": {"queue": "orders"},
    "audit": {},
    "policy": {"queue": "orders"},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with a user who may only read, and with some dead letters."""
    file = acl_file(tmp_path, needed(), "pw", ["read-only"])
    with Server(tmp_path, "--aclfile", str(file)) as server:
        with rq_dlq.Broker(server.url, version="1.2") as broker:
            orders = broker.queue("orders")
            body = {"user": "joe", "card": {"api-token": "4711"}, "text": "x" * 5_000}
            headers = {"authorization": "Bearer 4711", "tenant": "a"}
            for number in range(3):
                orders.send(
                    body,
                    id=f"order-{number}",
                    headers=headers,
                    key="token=4711",
                    dependency="db://anna:4711@a",
                )
            orders.key("token=4711").pause(by="anna")
            orders.key("token=4711").resume(by="anna")
            for delivery in orders.claim(3):
                fail(delivery)
            orders.dlq.redrive(ids=["order-0"], by="anna")
            broker.queue("mail").send_many(["a"] * 3)
        yield server


def fail(delivery: rq_dlq.Delivery[Any]) -> None:
    try:
        open("postgres://joe:geheim@shop.example/x").close()  # noqa: PTH123 - a secret in an error
    except OSError as error:
        delivery.poison(error)


def ask(shell: Shell, *questions: tuple[str, dict[str, Any]], words: tuple[str, ...] = ()) -> list[Any]:
    """The tools of `rq-dlq mcp`, and the answers: what was in them, or the text of an error.

    The server runs here: another process would import the SDK once more, which takes a second.
    """
    need("mcp", "mcp")
    import_module("rq_dlq.cli.mcp.server")
    found, before = list[Any](), signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "rq_dlq.cli.mcp.server.MCPServer.run", lambda server, _: found.extend(talk(server, questions))
        )
        try:
            shell("mcp", *words)
        finally:
            signal.signal(signal.SIGINT, before)
    return found


def ask_a_process(shell: Shell, *questions: tuple[str, dict[str, Any]]) -> list[Any]:
    """The same of a server at the other end of a pipe, as an assistant starts it."""
    need("mcp", "mcp")
    mcp: Any = import_module("mcp")
    command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "rq_dlq", "mcp"], env=shell.env)
    return talk(command, questions)


def talk(server: Any, questions: Iterable[tuple[str, dict[str, Any]]]) -> list[Any]:
    mcp: Any = import_module("mcp")

    async def talking() -> list[Any]:
        async with mcp.Client(server) as client:
            found: list[Any] = [(await client.list_tools()).tools]
            for name, arguments in questions:
                result = await client.call_tool(name, arguments)
                text = result.content[0].text
                found.append(text if result.is_error else json.loads(text))
            return found

    return asyncio.run(asyncio.wait_for(talking(), 120))


def test_ctrl_c_ends_it_though_a_thread_waits_for_stdin(shell: Shell) -> None:
    need("mcp", "mcp")
    program = [sys.executable, "-m", "rq_dlq", "mcp"]
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with Started(
        program, env=os.environ | shell.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(hello) + "\n")
        process.stdin.flush()
        assert process.stdout.readline()  # it reads stdin by now
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def reader(server: Server, tmp_path: Path, user: str = "read-only:pw@") -> Shell:
    return Shell(f"unix://{user}{server.socket}", "rq", tmp_path)


def dumps(server: Server) -> dict[bytes, bytes | None]:
    """All keys, but those that end waits and expire within a second."""
    with server.client() as client:
        return {key: client.dump(key) for key in client.scan_iter() if not key.endswith(b":wake")}


@pytest.mark.parametrize(("asked", "user"), [(ask_a_process, "read-only:pw@"), (ask, "")])
def test_no_tool_changes_anything(
    server: Server, tmp_path: Path, asked: Callable[..., list[Any]], user: str
) -> None:
    before = dumps(server)
    shell = reader(server, tmp_path, user)
    tools, *answers = asked(shell, *CALLS.items(), *CALLS.items())
    assert {tool.name for tool in tools} == {*CALLS}
    assert all(tool.annotations.read_only_hint and len(tool.description) > 60 for tool in tools)
    assert not [answer for answer in answers if isinstance(answer, str)]
    assert dumps(server) == before


def test_what_the_tools_tell(server: Server, tmp_path: Path) -> None:
    _, queues, groups, letters, explained, plan, audit, policy = ask(reader(server, tmp_path), *CALLS.items())
    counts = {queue["name"]: (queue["ready"], queue["dead"]) for queue in queues["queues"]}
    assert counts == {"orders": (1, 2), "mail": (3, 0)}
    (trouble,) = queues["queues"][0]["trouble"]
    assert trouble["what"].startswith("growing: FileNotFoundError: ")
    assert trouble["detail"].startswith("2 dead letters within the last hour, 2 in all")
    (group,) = groups["groups"]
    assert (group["count"], group["versions"]) == (2, {"1.2": 2})
    assert [letter["id"] for letter in letters["dead_letters"]] == ["order-2", "order-1"]
    newest, other = letters["dead_letters"]
    assert "shop.example" in newest["traceback"]
    assert "traceback" not in other
    assert newest["headers"] == {"authorization": "***", "tenant": "a"}
    assert "order-1 is dead" in explained["explanation"]
    assert explained["birth"] > 0
    assert plan.pop("at")
    assert plan == {
        "plan": "2 dead letters of orders will be moved back", "chosen": "all",
        "eligible": 2, "expired": 0, "gone": 0, "leased": 0,
    }  # fmt: skip
    assert next((record["by"], record["did"]) for record in audit["records"]) == ("anna", "done")
    assert {row["field"] for row in policy["settings"]} >= {"redelivery.max_redeliveries"}


def test_calls_that_hang_are_not_too_few_workers(shell: Shell, hanging: str) -> None:
    _, told = ask(shell, ("queues", {}))
    (trouble,) = told["queues"][0]["trouble"]
    assert trouble["detail"].startswith(hanging)


def test_secrets_are_hidden_and_long_texts_cut(server: Server, tmp_path: Path) -> None:
    _, *answers = ask(reader(server, tmp_path), *CALLS.items())
    assert not any(secret in json.dumps(answers) for secret in ("4711", "geheim"))
    body = answers[2]["dead_letters"][0]["body"]
    assert body.startswith('{"user":"joe","card":{"api-token":"***"}')
    assert body.endswith("… (5,051 characters)")
    masked = ask(reader(server, tmp_path), ("dead_letters", {"queue": "orders"}), words=("--mask", "user"))[1]
    assert masked["dead_letters"][0]["body"].startswith('{"user":"***"')
    none = ask(reader(server, tmp_path), ("dead_letters", {"queue": "orders"}), words=("--no-bodies",))[1]
    assert {none["dead_letters"][0][name] for name in ("body", "headers")} == {"not shown"}


def test_errors_are_sentences(server: Server, tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("groups", {"queue": "ordres"}, "there is no queue 'ordres'"),
        ("groups", {"queue": "a b"}, "a b"),
        ("dead_letters", {"queue": "orders", "group": "abcdef"}, "there is no group 'abcdef'"),
        ("dead_letters", {"queue": "orders", "limit": 10_000}, "less than or equal to 20"),
    ]
    _, *answers = ask(reader(server, tmp_path), *((tool, arguments) for tool, arguments, _ in wrong))
    for answer, (_, _, said) in zip(answers, wrong, strict=True):
        assert said in answer


def test_a_body_that_is_nested_deep_can_be_text(server: Server, tmp_path: Path) -> None:
    """How deep Python follows depends on its version."""
    text = "[" * 900 + "1" + "]" * 900
    with rq_dlq.Broker(server.url) as broker:
        deep = broker.queue("deep")
        deep.send("[" * 2_000, id="open")
        deep.send(json.loads(text), id="deep")
        for delivery in deep.claim(2):
            delivery.poison("no")
    _, letters, explained = ask(
        reader(server, tmp_path),
        ("dead_letters", {"queue": "deep"}),
        ("explain", {"queue": "deep", "id": "deep"}),
    )
    bodies = {letter["id"]: letter["body"] for letter in letters["dead_letters"]}
    assert bodies["open"] == "[" * 2_000
    assert bodies["deep"] == text or bodies["deep"] == json.loads(text)
    assert explained["message"]["body"] == bodies["deep"]


def test_an_unknown_argument_is_refused(server: Server, tmp_path: Path) -> None:
    tools, answer = ask(reader(server, tmp_path), ("plan_redrive", {"queue": "orders", "grup": "abcdef"}))
    assert "grup" in answer
    assert not any(tool.input_schema["additionalProperties"] for tool in tools)


def test_what_nobody_thought_of_is_a_sentence_and_a_line(caplog: pytest.LogCaptureFixture) -> None:
    need("mcp", "mcp")
    ours: Any = import_module("rq_dlq.cli.mcp.server")

    def groups() -> str:
        raise KeyError("hunter2")

    with pytest.raises(ours.ToolError, match=r"^this failed unexpectedly \(KeyError\)") as failed:
        ours._telling(groups)()
    (line,) = caplog.messages
    assert line.startswith("groups: KeyError, test_mcp.py:")
    assert "hunter2" not in f"{failed.value}{line}"


def test_redis_away_is_a_sentence_and_it_goes_on(tmp_path: Path) -> None:
    shell = Shell(f"unix://{tmp_path}/none.sock", "rq", tmp_path)
    _, *answers = ask(shell, ("queues", {}), ("queues", {}))
    assert all("cannot reach unix://" in answer for answer in answers)


def test_without_the_sdk_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "rq_dlq.cli.mcp.server", raising=False)
    assert "pip install 'rq-dlq[mcp]'" in shell("mcp", code=2).output
