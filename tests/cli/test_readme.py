"""The README and the pages, as a newcomer types them in: each block of code and of commands runs."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from tests.cli.conftest import ROOT, Shell
from tests.servers import wait_until

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
VARYING = [  # what is not the same in each run
    (r"\b[0-9A-Za-z]{12}\b", "ID"),
    (r"\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME"),
    (r"\b\d+(\.\d+)?m?s\b", "SPAN"),
    (r"\s+", " "),
]
HEAVY = ("pip install", "pytest -n auto")  # CI runs these by themselves


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text(encoding="utf-8")


def chapter(title: str) -> str:
    """The text of a chapter of the README, or of the tutorial, which goes on where that ends."""
    parts = f"{page('README.md')}\n{page('docs/tutorial.md')}".split("\n## ")
    return next(part for part in parts if part.startswith(f"{title}\n"))


def blocks(text: str) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    return [(found[1], found[2]) for found in BLOCK.finditer(text)]


def told(text: str) -> str:
    """The text without what differs from run to run."""
    for varying, name in VARYING:
        text = re.sub(varying, name, text)
    return text.strip()


@dataclass
class Typist:
    """Types blocks into a terminal, in a directory of its own.

    Attributes:
        lines: what was shown so far.
    """

    shell: Shell
    lines: list[str] = field(default_factory=list[str])
    directory: Path = field(init=False)
    env: dict[str, str] = field(init=False)
    log: Path = field(init=False)
    running: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def __post_init__(self) -> None:
        self.directory = self.shell.directory
        self.log = self.directory / "log"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.env = os.environ | self.shell.env | {"PATH": path, "PYTHONUNBUFFERED": "1"}

    def command(self, line: str) -> None:
        """Run a command; one of ours without a process, which takes half a second, but for workers."""
        words = shlex.split(line, comments=True)
        if words[0] != "rq-dlq" or (words[1] == "worker" and words[2] != "ls"):
            self.run(line)
            return
        words, fails = (words[:-2], True) if words[-2:] == ["||", "true"] else (words, False)
        words, file = (words[:-2], words[-1]) if words[-2] == ">" else (words, None)
        result = self.shell(*words[1:], code=1 if fails else 0)
        if file:
            (self.directory / file).write_text(result.stdout)
        self.lines += result.output.splitlines()

    def type(self, language: str, text: str) -> None:
        """Save a file, change a line of it, run commands, or look for what they show."""
        if language == "sh":
            for line in text.splitlines():
                self.command(line)
        elif language == "text":
            wait_until(
                lambda: all(any(told(line) in one for one in self.shown()) for line in text.splitlines())
            )
        elif named := re.match(r"# (\w+\.py)\n", text):
            (self.directory / named[1]).write_text(text)
        else:
            self.change(text)

    def run(self, line: str) -> None:
        """Run a command to its end; a worker stays."""
        if line.startswith("rq-dlq worker") and not {"--burst", "ls"} & {*line.split()}:
            with self.log.open("a") as log:
                self.running.append(
                    subprocess.Popen(
                        line.split(), cwd=self.directory, env=self.env, stdout=log, stderr=log, text=True
                    )
                )
            wait_until(lambda: "concurrent calls" in self.log.read_text())
            return
        shell = ["sh", "-c", line]
        done = subprocess.run(
            shell, cwd=self.directory, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.lines += (done.stdout + done.stderr).splitlines()

    def change(self, text: str) -> None:
        """Put a line in the place of the one that sets the same name, and wait for the worker's restart."""
        name = text.partition(" = ")[0]
        file = self.directory / "shop.py"
        before = self.log.read_text().count("concurrent calls")
        file.write_text(re.sub(rf"^{name} = .*\n", text, file.read_text(), flags=re.MULTILINE))
        wait_until(lambda: self.log.read_text().count("concurrent calls") > before)

    def shown(self) -> list[str]:
        """All lines so far, also those of workers."""
        log = self.log.read_text().splitlines() if self.log.exists() else []
        return [told(line) for line in [*self.lines, *log]]


@pytest.fixture
def typist(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    for name, value in shell.env.items():
        monkeypatch.setenv(name, value)
    typist = Typist(shell)
    yield typist
    for process in typist.running:
        process.terminate()
        assert process.wait(60) == 0


def test_the_first_ten_minutes(typist: Typist) -> None:
    """Typed in, run, run by a worker, broken, seen, fixed, redriven; and its test."""
    for language, text in blocks(chapter("The first ten minutes")):
        typist.type(language, text)
    for language, text in blocks(chapter("Testing")):
        typist.type(language, text)


def test_a_handler(typist: Typist, broker: rq_dlq.Broker) -> None:
    ((language, text),) = blocks(chapter("Queues and handlers"))
    typist.type(language, text)
    typist.run("python orders.py")
    assert "charged 9.90 for order 1" in typist.shown()
    assert {letter.cause.message for letter in broker.queue("orders").dlq.browse()} == {"negative total"}
    ((language, text),) = blocks(chapter("Dead letters in code"))
    run_in_order([text])
    assert broker.queue("orders").stats().dead == 3


def test_async(typist: Typist) -> None:
    ((language, text),) = blocks(chapter("Async"))
    typist.type(language, text)
    typist.run("python web.py")
    typist.run("rq-dlq worker web:broker")
    typist.type("text", "invoice of Tea & Cake for order 7\n")


def test_policies(typist: Typist, broker: rq_dlq.Broker) -> None:
    code, commands = blocks(chapter("Policies"))
    run_in_order([code[1]])
    typist.type(*commands)
    assert broker.policies.explain("mail.eu").dead_name == "MAIL.DEAD"


def test_production(typist: Typist) -> None:
    typist.type(*blocks(chapter("The first ten minutes"))[0])
    ((_, commands),) = blocks(chapter("Production"))
    for line in commands.splitlines()[1:]:  # the first names the server
        typist.command(line.replace("--processes 4", "--processes 2"))  # which shows as much
    wait_until(lambda: typist.log.read_text().count("receipts: up to 1 concurrent calls") == 2)


def test_the_readme_takes_a_minute() -> None:
    """Tables and code count, too; bars and signs do not."""
    words = [word for word in page("README.md").split() if re.search(r"\w", word)]
    assert len(words) <= 900
    (figure,) = re.findall(r"[\d,]+ messages a second", page("README.md"))
    assert re.search(rf"^\| rq_dlq \|.* {figure.split()[0]} \|", page("docs/performance.md"), re.MULTILINE)


def test_every_block_of_readme_and_tutorial_is_run_here_or_by_ci() -> None:
    """A new block needs a test above; those of Spark are read only, as they need a session."""
    run = [
        "The first ten minutes",
        "Testing",
        "Queues and handlers",
        "Dead letters in code",
        "Async",
        "Policies",
    ]
    known = [block for title in [*run, "Production"] for block in blocks(chapter(title))]
    for language, text in blocks(page("README.md")) + blocks(page("docs/tutorial.md")):
        if (language, text) in known:
            continue
        if language == "python":
            assert (language, text) in blocks(chapter("Spark"))
            ast.parse(text)
        else:
            assert any(word in text for word in HEAVY), text


def test_the_commands_of_production(
    typist: Typist, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(typist.directory)
    Path("patch.json").write_text('{"currency": "EUR"}')
    typist.type(*blocks(chapter("The first ten minutes"))[0])
    broker.queue("orders").send_many(rq_dlq.Message(body=n, id=f"order-{n}") for n in range(3))
    broker.queue("orders").claim()[0].poison("bad")
    for language, text in blocks(page("docs/production.md")):
        if language == "sh":
            for line in text.splitlines():
                typist.command(line.replace("--processes 4", "--processes 1"))  # as in `test_production`
        else:
            typist.type(language, text)


def test_the_page_of_metrics(typist: Typist) -> None:
    for language, text in blocks(page("docs/metrics.md")):
        if language == "sh":
            typist.type(language, text)
        elif language == "python":
            (typist.directory / "app.py").write_text(text)
            typist.run("python app.py")
    assert "rq_dlq_up 1.0" in typist.lines


def test_the_guide_runs_from_top_to_bottom(typist: Typist, broker: rq_dlq.Broker) -> None:
    guide = blocks(page("docs/guide.md"))
    broker.queue("DLQ.shop.orders")
    code = [text for language, text in guide if language == "python"]
    names = run_in_order(code, charge_card=print, report=print)
    assert names["invoices"].stats().ready > 0
    for text in (text for language, text in guide if language == "sh"):
        for line in text.splitlines():
            typist.command(line.replace("examples/", f"{ROOT}/examples/"))
    assert broker.queue("flights").stats().ready == 0


def test_how_do_i(
    typist: Typist, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answers are one program; a comment after `print` begins with what it shows."""
    pytest.importorskip("cryptography")
    monkeypatch.chdir(typist.directory)
    code = [text for _, text in blocks(page("docs/how-do-i.md"))]
    names = run_in_order(code)
    names["database"].close()
    told = capsys.readouterr().out.splitlines()
    promised = [found[1] for text in code for found in re.finditer(r"print\(.*\)  # ([^;:\n]+)", text)]
    assert [line for line in told if line in promised] == promised
    assert names["payments"].stats().ready == names["videos"].stats().leased == 0


def run_in_order(code: list[str], **names: Any) -> dict[str, Any]:
    """Run blocks as one program."""
    for text in code:
        exec(compile(text, "page", "exec"), names)  # noqa: S102 - our own pages
    return names
