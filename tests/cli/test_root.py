"""The global options, and how errors are told."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.cli._logs import ToStderr
from rq_dlq.worker.logs import LogFormatter
from tests.cli.conftest import Shell
from tests.tables import each_row


def test_it_tells_its_version(shell: Shell) -> None:
    """And what it works with."""
    said = shell("--version").stdout.partition(" ")[2]
    own, server = said.splitlines()
    assert own == (
        f"{rq_dlq.__version__}, for Redis 6.2 and newer, and Valkey; 0.1.0 and newer can read its data"
    )
    assert " runs the verbs as " in server


def commands(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, click.Context(inner, parent=context, info_name=name))


def test_each_command_and_option_says_what_it_does() -> None:
    for command in commands(main, click.Context(main)):
        assert command.help, command.name
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        assert not [one.opts[0] for one in options if not one.help], command.name


def test_a_server_that_is_not_there_is_one_sentence_and_code_3(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--url", f"unix://{tmp_path}/none.sock", "queue", "ls"])
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("Error: cannot reach unix://")
    assert result.stderr.splitlines()[1:] == ["more: rq-dlq error BrokerUnavailable"]


@each_row(
    ("words", "env", "coloured"),
    [
        ((), {}, True),
        (("--no-color",), {}, False),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
    ],
)
@each_row("last", [False, True])
def test_errors_have_colours_only_where_they_are_wanted(
    shell: Shell, words: tuple[str, ...], env: dict[str, str], *, coloured: bool, last: bool
) -> None:
    line = ["dlq", "ls", "none", *words] if last else [*words, "dlq", "ls", "none"]
    environment = {"NO_COLOR": None, "TERM": "xterm", **env}
    result = CliRunner().invoke(main, ["--url", shell.url, *line], env=environment, color=True)
    assert result.stderr.startswith("\x1b[31m" if coloured else "Error: there is no queue")


def test_a_password_is_never_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"redis://user:geheim@127.0.0.1:{port}/0"
    result = CliRunner().invoke(main, ["--url", url, "queue", "ls"])
    assert result.exit_code == 3
    assert "geheim" not in result.output


def test_twice_verbose_shows_where_an_error_came_from(shell: Shell) -> None:
    calm = shell("queue", "show", "a b", code=2)
    assert "Traceback" not in calm.stderr
    assert "Traceback" in shell("-vv", "queue", "show", "a b", code=2).stderr


@each_row("place", ["before", "after"])
def test_global_options_may_stand_anywhere(shell: Shell, place: str) -> None:
    words = ["queue", "ls"]
    words = ["-o", "json", *words] if place == "before" else [*words, "-o", "json"]
    assert shell(*words).stdout == "[]\n"


def test_the_environment_says_where_the_server_is(shell: Shell) -> None:
    shell("send", "orders", typed="one\n")
    result = CliRunner().invoke(main, ["-o", "jsonl", "queue", "ls"], env=shell.env)
    assert '"name":"orders"' in result.stdout


@each_row("words", [["nonsense"], ["queue", "show"], ["-o", "xml", "queue", "ls"]])
def test_what_makes_no_sense_is_code_2(shell: Shell, words: list[str]) -> None:
    shell(*words, code=2)


def test_a_url_that_is_none_is_code_2(shell: Shell) -> None:
    assert "'foo' is not a Redis URL" in shell("--url", "foo", "queue", "ls", code=2).stderr


def test_a_namespace_is_called_one(shell: Shell) -> None:
    assert "'a b' cannot name a namespace" in shell("--namespace", "a b", "queue", "ls", code=2).stderr


def printed(shell: Shell, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """A run of the program, as a process of its own."""
    env = os.environ | shell.env | settings.pop("env", {})
    command = [sys.executable, "-m", "rq_dlq", *words]
    return subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, check=False, **settings)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "words", [["queue", "ls"], ["queue", "ls", "-o", "jsonl"], ["--help"], ["send", "--help"]]
)
def test_a_full_disk_under_its_output_is_one_sentence(
    shell: Shell, broker: rq_dlq.Broker, words: list[str]
) -> None:
    broker.queue("orders").send(1)
    with Path("/dev/full").open("w") as full:
        ended = printed(shell, *words, stdout=full)
    assert (ended.returncode, ended.stderr) == (
        1,
        "Error: cannot write the output: No space left on device\n",
    )


def test_what_an_encoding_lacks_is_printed_as_an_escape(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("größe").send("→")
    ended = printed(shell, "peek", "größe", stdout=subprocess.PIPE, env={"PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\\u2192" in ended.stdout


@pytest.mark.parametrize(("words", "code"), [(("queue", "ls"), 0), (("peek", "nope"), 1)])
def test_a_command_closes_its_connections(shell: Shell, words: tuple[str, ...], code: int) -> None:
    with patch.object(rq_dlq.Broker, "close", autospec=True, side_effect=rq_dlq.Broker.close) as close:
        shell(*words, code=code)
    close.assert_called_once()


@each_row(
    "words",
    [
        ["queue", "ls", "\x1b[2J\u200b"],
        ["--\x1b[2J"],
        ["\x1b[2Jqueue"],
        ["dlq", "ls", "a", "--limit", "\x1b[2J"],
    ],
)
def test_a_usage_error_cannot_steer_the_terminal(shell: Shell, words: list[str]) -> None:
    """It quotes the command line, which may come from a message."""
    said = shell(*words, code=2).stderr
    assert "\x1b[2J" not in said
    assert r"\x1b[2J" in said


def test_an_entry_of_the_log_cannot_be_forged() -> None:
    """The text of an error may have lines of its own, which look like entries."""
    error = ValueError("no\n12:00:00Z orders 7: acked\n\x1b[2J\u202e\U000e0041")
    told = (ValueError, error, None)
    record = logging.LogRecord("rq_dlq", logging.ERROR, "", 1, "failed: %s", ("a\nb",), told)
    first, *others = LogFormatter().format(record).split("\n")
    assert first.endswith("Z failed: a")
    assert others[0] == "    b"
    assert all(line.startswith("    ") for line in others)
    assert r"    \x1b[2J\u202e\U000e0041" in others


def test_an_entry_on_stderr_is_indented_once(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("rq_dlq", logging.ERROR, "", 1, "a\nb\x1b", (), None)
    for formatter in (None, LogFormatter()):
        handler = ToStderr()
        handler.setFormatter(formatter)
        handler.handle(record)
        assert capsys.readouterr().err.splitlines()[1] == r"    b\x1b"
