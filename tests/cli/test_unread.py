"""A log whose reader has gone: the process ends in good order."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import rq_dlq
from tests.cli.conftest import Shell
from tests.servers import wait_until
from tests.servers.warm import WarmProcess

APP = """
import logging, pathlib, time
from rq_dlq import Broker

broker = Broker()
here = pathlib.Path(__file__).parent

@broker.queue("orders").handler()
def order(body):
    (here / "begun").touch()
    while not (here / "go").exists():
        time.sleep(0.01)
    logging.getLogger("shop").warning("no reader")
    print("a line " * 10_000)
    (here / "done").touch()
"""


@contextmanager
def unread(shell: Shell, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process whose stdout and stderr are one pipe, as with `2>&1 |`; and the end to read from."""
    (shell.directory / "app.py").write_text(APP)
    reader, writer = os.pipe()
    assert shell.warm is not None
    process = WarmProcess(
        shell.warm, [*words], cwd=shell.directory, env=os.environ | shell.env, stdout=writer, stderr=writer
    )
    os.close(writer)
    with process:
        try:
            yield process, reader
        finally:
            process.kill()


def said(reader: int, text: bytes) -> None:
    log = b""
    while text not in log:
        more = os.read(reader, 1 << 12)
        assert more, log
        log += more


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
def test_a_worker_finishes_what_it_has_begun(shell: Shell, broker: rq_dlq.Broker, options: list[str]) -> None:
    orders = broker.queue("orders")
    with unread(shell, "worker", "app", *options) as (worker, reader):
        said(reader, b"orders: up to 1 concurrent calls")
        orders.send("a")
        wait_until((shell.directory / "begun").exists)
        os.close(reader)
        (shell.directory / "go").touch()
        assert worker.wait(60) == 1
    assert (shell.directory / "done").exists()
    stats = orders.stats()
    assert (stats.totals["acked"], stats.leased, stats.scheduled, stats.dead) == (1, 0, 0, 0)


def test_a_stop_that_also_ends_the_reader_is_a_stop(shell: Shell, broker: rq_dlq.Broker) -> None:
    """As Ctrl-C does it with `2>&1 | tee worker.log`."""
    orders = broker.queue("orders")
    with unread(shell, "worker", "app") as (worker, reader):
        said(reader, b"orders: up to 1 concurrent calls")
        orders.send("a")
        wait_until((shell.directory / "begun").exists)
        os.close(reader)
        worker.send_signal(signal.SIGINT)
        wait_until(lambda: [one.state for one in broker.workers()] == ["stopping"])
        (shell.directory / "go").touch()
        assert worker.wait(60) == 0
    assert orders.stats().totals["acked"] == 1


def test_maintenance_ends(shell: Shell) -> None:
    with unread(shell, "maintain", "--period", "20ms") as (maintenance, reader):
        os.close(reader)
        assert maintenance.wait(60) == 1
