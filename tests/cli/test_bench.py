"""`rq-dlq bench`."""

from __future__ import annotations

import signal
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from click.testing import CliRunner
from rich.console import Console

import rq_dlq
from rq_dlq.cli import _scratch, main
from rq_dlq.cli._show import Output
from rq_dlq.cli.bench import BUSY, limits
from rq_dlq.cli.bench.figures import WORKERS, Figure
from rq_dlq.cli.bench.view import show
from tests.cli.conftest import Shell
from tests.servers import wait_until
from tests.servers.clusters import Cluster
from tests.tables import each_row

QUICK = ("bench", "--seconds", "1", "--yes")


def ours(client: redis.Redis) -> set[bytes | str]:
    """The keys of benchmarks."""
    return {*client.keys("rq-dlq-bench-*")}


def test_it_measures_everything_and_leaves_nothing(shell: Shell, redis_socket: str, tmp_path: Path) -> None:
    picture = tmp_path / "bench.svg"
    found = {row["name"]: row for row in shell.json(*QUICK, "--svg", str(picture))}
    assert set(WORKERS) | {"PING", "send one", "send many", "redrive", "idle pick-up, p99"} <= set(found)
    assert all(row["value"] > 0 for row in found.values())
    beside = {name for name, row in found.items() if row["limit"]}
    assert {"PING", "send one", "redrive"} & beside == {"send one", "redrive"}
    assert all(row["limit_is"] and row["share"] > 0 for row in found.values() if row["limit"])
    assert found["a pending message of 100 bytes"]["value"] > 100
    assert "send&#160;many" in picture.read_text()
    with redis.Redis(unix_socket_path=redis_socket) as client:
        assert ours(client) == set()


@each_row("seconds", ["nan", "NaN", "-nan", "inf", "0", "3601", "soon"])
@each_row("command", ["bench", "demo"])
def test_a_time_that_is_none_is_refused(command: str, seconds: str) -> None:
    told = CliRunner().invoke(main, [command, "--seconds", seconds])
    assert told.exit_code == 2
    assert "Invalid value for '--seconds'" in told.output


def test_the_table_has_a_line_for_each_figure_and_the_server_is_named(
    shell: Shell, redis_socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the variable: who set it would take the figures for those of that server."""
    embedded = SimpleNamespace(url=shell.url, backend="redis-server 7", durable=True)
    monkeypatch.setattr(_scratch, "ensure", lambda: embedded)
    monkeypatch.setenv("RQ_DLQ_URL", "redis://production:1")
    told = shell(*QUICK)
    assert f"on unix://{redis_socket}" in told.stderr
    for text in ("send many", "worker as it comes", "idle pick-up, p50", "EVALSHA of an empty script", "%"):
        assert text in told.stdout
    told = CliRunner().invoke(main, ["-o", "json", *QUICK])
    assert told.exit_code == 0, told.output
    unused = "$RQ_DLQ_URL is not used: to use that server, pass --url"
    assert told.stderr.startswith(f"on the embedded redis-server 7; {unused}\n")
    embedded.durable = False
    told = CliRunner().invoke(main, ["-o", "json", *QUICK])
    assert "which is many times as slow as a server: to have one, install redis" in told.stderr


def test_it_measures_a_cluster(cluster: Cluster) -> None:
    result = CliRunner().invoke(main, ["--url", cluster.url, "-o", "json", *QUICK])
    assert result.exit_code == 0, result.output
    for node in cluster.nodes:
        with node.client() as client:
            assert ours(client) == set()


def test_a_signal_ends_it_and_nothing_is_left(shell: Shell, redis_socket: str) -> None:
    """Whichever it is: `test_each_signal_interrupts`."""
    with (
        redis.Redis(unix_socket_path=redis_socket) as client,
        shell.process("--url", shell.url, "bench", "--seconds", "12", "--yes") as process,
    ):
        wait_until(lambda: ours(client))
        process.terminate()
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 4
        assert stderr.endswith("Error: stopped\n")
        assert ours(client) == set()


def test_each_signal_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C does, of which Python makes an interrupt by itself."""
    heard: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    monkeypatch.setattr(signal, "signal", heard.__setitem__)
    _scratch.interrupt_on_signals()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with pytest.raises(KeyboardInterrupt):
            heard[number](number, None)


def test_ctrl_c_that_a_worker_took_for_itself_ends_it_too(
    shell: Shell, redis_socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a worker that was interrupted, one does nothing here."""
    monkeypatch.setattr("rq_dlq.cli.bench.figures.Worker.run", lambda _: None)
    assert shell(*QUICK, code=4).stderr.endswith("Error: stopped\n")
    with redis.Redis(unix_socket_path=redis_socket) as client:
        assert ours(client) == set()


def test_a_server_that_others_use_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "commands_a_second", lambda _: 4_321)
    told = shell(*QUICK[:-1], code=1).stderr
    assert "other clients run 4,321 commands a second" in told
    assert "--yes" in told


def test_what_others_run_is_counted(shell: Shell, redis_socket: str) -> None:
    over = Event()

    def use() -> None:
        with redis.Redis(unix_socket_path=redis_socket) as client:
            while not over.is_set():
                client.ping()

    with rq_dlq.Broker(shell.url) as broker:
        thread = Thread(target=use)
        thread.start()
        try:
            assert limits.commands_a_second(broker) > BUSY
        finally:
            over.set()
            thread.join()
        wait_until(lambda: limits.commands_a_second(broker) <= BUSY)


@pytest.mark.parametrize(("width", "bar"), [(120, 20), (80, 11), (60, 5)])
def test_bars_are_as_long_as_there_is_room(width: int, bar: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        Figure("send one", 12_345, limit=24_690, limit_is="EVALSHA of an empty script"),
        Figure("cost of a call, 20,000 : 2,000 pending", 1.05, "times", 1, "no difference"),
    ]
    output = Output(stdout=Console(width=width))
    show(output, found, None)
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    (row,) = [line for line in lines if "12,345/s" in line]
    assert row[:4] == ["send", "one", "12,345/s", "24,690/s"]
    assert (len(row[4]), row[5]) == (bar, "50%")
    assert "cost of a call, 20,000 : 2,000 pending" in text
    assert "…" not in text
    assert ("EVALSHA" in row) is (width == 120)
    assert "EVALSHA of an empty script" in text


@each_row(
    ("unit", "value", "limit", "share"),
    [("/s", 50, 100, 0.5), ("ms", 4, 1, 0.25), ("/s", 50, None, None), ("ms", 0, 1, None)],
)
def test_a_share_is_of_what_is_possible(
    unit: str, value: float, limit: float | None, share: float | None
) -> None:
    assert Figure("x", value, unit, limit).share == share
