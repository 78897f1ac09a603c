"""`rq-dlq top`, as a process on a terminal of its own, and its picture."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

import rq_dlq
from rq_dlq.cli import _show
from rq_dlq.values import counts as values_counts
from tests.cli.conftest import Shell
from tests.servers import Server, wait_until
from tests.servers.warm import Warm, WarmProcess

Die = Callable[..., list[str]]
Start = Callable[..., AbstractContextManager["Terminal"]]
BREAK = """
from rq_dlq.cli.top.reading import TopReader
def read(self):
    raise RuntimeError("a fault in the program")
TopReader.read = read
"""
ENTER, LEAVE, SHOW_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def plain(output: str) -> str:
    """Without what moves the cursor, and without colours, which the tracebacks of Python 3.13 have, too."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)


class Terminal:
    """A terminal with a process on it.

    Attributes:
        output: all that the process wrote.
    """

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self._master, self.output = process, master, ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the process has closed it
            while data := os.read(self._master, 1 << 16):
                self.output += data.decode(errors="replace")

    @property
    def frame(self) -> str:
        """What it shows now: it draws from the top left corner on, the last line says what keys do."""
        frames = [frame for frame in self.output.split("\x1b[H") if re.search("q quit|Enter keeps", frame)]
        return plain(frames[-1]) if frames else ""

    def shows(self, text: str, *, gone: bool = False) -> None:
        """Wait until it shows a text, or does so no longer."""
        try:
            wait_until(lambda: (text in self.frame) is not gone)
        except pytest.fail.Exception:
            pytest.fail(f"waited in vain for {text!r}, {gone=}, in:\n{self.frame}")

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def settings(self) -> object:
        """How the terminal treats keys."""
        return termios.tcgetattr(self._master)

    def end(self) -> int:
        """Wait for its end, and return the exit code."""
        code = self.process.wait(60)
        self._reader.join(60)
        return code


@pytest.fixture
def terminal(shell: Shell, warm: Warm) -> Start:
    """Starts `rq-dlq top` on a terminal."""

    @contextmanager
    def start(
        *words: str, columns: int = 80, lines: int = 24, before: str = "", url: str = "", **env: str
    ) -> Iterator[Terminal]:
        master, slave = pty.openpty()
        variables = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        variables |= {"TERM": "xterm", **shell.env, **env}
        if url:
            variables["RQ_DLQ_URL"] = url
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        process = WarmProcess(
            warm, ["top", "--every", "100ms", *words], before=before, session=True,
            stdin=slave, stdout=slave, stderr=slave, env=variables,
        )  # fmt: skip
        untouched = termios.tcgetattr(master)
        os.close(slave)
        shown = Terminal(process, master)
        try:
            yield shown
            assert shown.settings == untouched
        finally:
            process.kill()
            process.wait()
            os.close(master)

    return start


@pytest.fixture
def trouble(broker: rq_dlq.Broker, dead: Die) -> None:
    """A queue whose messages die, one that is paused, and a redrive."""
    dead(*range(7), why="no stock\x1b[31m in Malmö")
    broker.queue("orders").dlq.redrive(limit=2, rate=0.1, detach=True, by="anna")
    broker.queue("bills").send_many(["a", "b"])
    broker.queue("bills").pause()
    broker.queue("mail").send("c")


@pytest.mark.usefixtures("trouble")
@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40)])
def test_it_fits(terminal: Start, columns: int, lines: int) -> None:
    with terminal(columns=columns, lines=lines, NO_COLOR="1") as shown:
        shown.shows("q quit")
        shown.shows("/min  over ")  # so many seconds: there are rates
        rows = shown.frame.split("\r\n")
        shown.press("q")
        assert shown.end() == 0
    assert (len(rows), max(map(len, rows))) == (lines, columns)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown.output)  # no colours
    assert "TROUBLE in 1 of 3 queues; 1 worth a look" in rows[1]
    assert "ready 3  scheduled 0  leased 0  dead 7  expired 0" in rows[2]
    for words in (
        r"orders +new, growing: no stock\\x1b\[31m",
        "bills +paused until it is resumed, 2 waiting",
        r"[0-9a-f]{6} +orders +new, growing +7 ",
    ):
        assert any(re.search(words, row) for row in rows), words
    assert any("running" in row and "anna" in row for row in rows)
    assert ("failed/s" in shown.output) is (columns == 120)


@pytest.mark.usefixtures("trouble")
def test_keys(terminal: Start) -> None:
    with terminal() as shown:
        shown.shows("sort: trouble")
        shown.press("\x1b[A")  # an arrow
        shown.press("s")
        shown.shows("sort: dead")
        shown.press("/")
        shown.shows("Enter keeps it")
        shown.press("quit")
        shown.shows("0 queues with 'quit' in the name")
        shown.press("\x7f\x7f\x7f\x7fmai")
        shown.shows("no trouble in 1 queue with 'mai' in the name")
        shown.press("\r")
        shown.shows("filter: mai, Esc clears it")
        shown.press("\x1b")
        shown.shows("in 1 of 3 queues")
        shown.press("q")
        assert shown.end() == 0
        restored(shown)


def restored(shown: Terminal) -> None:
    assert shown.output.count(ENTER) == shown.output.count(LEAVE) > 0
    assert shown.output.rindex(SHOW_CURSOR) > shown.output.rindex("\x1b[?25l")


@pytest.mark.usefixtures("trouble")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, "\x03"])
def test_a_signal_ends_it(terminal: Start, number: signal.Signals | str) -> None:
    with terminal() as shown:
        shown.shows("q quit")
        if isinstance(number, str):
            shown.press(number)  # Ctrl-C
        else:
            shown.process.send_signal(number)
        assert shown.end() == 0
        restored(shown)


def test_an_error_is_seen_and_the_terminal_restored(terminal: Start) -> None:
    with terminal(before=BREAK) as shown:
        assert shown.end() == 1
        restored(shown)
        assert "RuntimeError: a fault in the program" in plain(shown.output.rsplit(LEAVE, 1)[1])


@pytest.mark.usefixtures("trouble")
def test_it_is_suspended_and_goes_on(terminal: Start) -> None:
    with terminal() as shown:
        shown.shows("q quit")
        shown.press("\x1a")
        wait_until(lambda: psutil.Process(shown.process.pid).status() == psutil.STATUS_STOPPED)
        wait_until(lambda: shown.output.endswith(SHOW_CURSOR + LEAVE))
        shown.process.send_signal(signal.SIGCONT)
        wait_until(lambda: shown.output.count(ENTER) == 2)
        shown.press("q")
        assert shown.end() == 0
        restored(shown)


def test_a_new_size_is_used_at_once(terminal: Start, broker: rq_dlq.Broker) -> None:
    for number in range(50):
        broker.queue(f"queue-{number:02}").send(1)
    with terminal("--every", "1h") as shown:
        shown.shows("… and 33 more")
        shown.resize(100, 20)
        shown.shows("… and 37 more")
        rows = shown.frame.split("\r\n")
        assert (len(rows), max(map(len, rows))) == (20, 100)
        shown.press("q")
        shown.end()


def test_redis_away_and_back(terminal: Start, tmp_path: Path) -> None:
    with Server(tmp_path) as server, terminal(url=server.url) as shown:
        shown.shows("there are no queues yet")
        server.kill()
        shown.shows("NO ANSWER for")
        server.start()
        shown.shows("NO ANSWER for", gone=True)
        server.kill()
        shown.shows("NO ANSWER for")
        shown.press("q")
        assert shown.end() == 0


def test_a_dumb_terminal_gets_one_picture_after_another(terminal: Start) -> None:
    with terminal(TERM="dumb") as shown:
        wait_until(lambda: shown.output.count("there are no queues yet") > 2)
        shown.press("q")
        assert shown.end() == 0
    assert "\x1b" not in shown.output


@pytest.mark.usefixtures("trouble")
def test_a_pipe_gets_one_picture(shell: Shell) -> None:
    shown = shell("top", "--every", "100ms").stdout
    assert "TROUBLE in 1 of 3 queues" in shown
    assert "no stock\\x1b[31m in Malmö" in shown
    assert "\x1b" not in shown


def test_an_outage_is_above_all_else(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    """Each in a line of its own, three at most, before any group of dead letters; what is over is calm."""
    dead(*range(7), why="no stock")
    shops = broker.queue("shops", breaker=rq_dlq.Breaker(distinct=2))
    for name in ("bank", "mail", "maps", "post"):
        shops.dependency(name).pause()
    payments = broker.queue("payments-out", breaker=rq_dlq.Breaker(distinct=2))
    payments.send_many(range(2), dependency="payments")
    for one in payments.claim(2):
        one.nack("refused", delay=0)
    assert payments.claim(9) == []
    head, *rows = shell("top", "--every", "100ms").stdout.splitlines()
    assert head.startswith("rq-dlq top")
    assert re.match(r"payments down since ..:.. UTC, 2 wait, .*; nothing to do: it probes by itself", rows[0])
    assert rows[0].endswith("(payments-out)")
    assert rows[1].startswith("bank paused until it is resumed, 0 wait; `rq-dlq queue resume shops")
    assert rows[2].startswith("mail paused until it is resumed")
    assert rows[3].startswith("TROUBLE in 2 of 3 queues; 1 worth a look")
    assert [row.split()[:2] for row in rows if re.match("(orders|shops) +(new|ma|po)", row)] == [
        ["orders", "new,"],
        ["shops", "maps"],
        ["shops", "post"],
    ]


def test_calls_that_hang_are_not_too_few_workers(
    shell: Shell, hanging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing has failed yet, the workers' reports say all that is known."""
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 250)
    (row,) = re.findall("^orders .*the oldest for.*$", shell("top", "--every", "100ms").stdout, re.MULTILINE)
    assert hanging in row
    assert "keep up" not in row


def test_what_waits_for_a_decision_is_calm(shell: Shell, dead: Die, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_counts, "CALM", -1)
    dead(*range(7), why="no stock")
    shown = shell("top", "--every", "100ms").stdout
    assert "no trouble in 1 queue; 1 with dead letters that wait for a decision" in shown
    assert re.search("orders +7 dead letters wait for a decision", shown)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, "queue ready scheduled leased dead dead/min sent/s acked/s oldest"),
        (60, "queue ready scheduled leased dead dead/min"),
        (50, "queue ready scheduled dead dead/min"),
        (40, "queue ready dead dead/min"),
    ],
)
def test_a_narrow_terminal_has_names_and_fewer_columns(
    shell: Shell, dead: Die, monkeypatch: pytest.MonkeyPatch, width: int, columns: str
) -> None:
    dead("a", queue="shop.orders.europe-1")
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", width)
    lines = [line.split() for line in shell("top", "--every", "100ms").stdout.splitlines()]
    assert columns.split() in lines
    assert lines[lines.index(columns.split()) + 1][:2] == ["shop.orders.europe-1", "0"]


def test_what_it_cannot_do_is_told(shell: Shell, tmp_path: Path) -> None:
    assert "rq-dlq queue ls -o json" in shell("top", "-o", "json", code=2).output
    assert "Pass 100ms" in shell("top", "--every", "1ms", code=2).output
    assert "cannot reach" in shell("--url", f"unix://{tmp_path}/none", "top", code=3).output
