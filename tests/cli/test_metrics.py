"""`rq-dlq metrics`."""

from __future__ import annotations

import signal
import socket
import sys
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry

import rq_dlq
from rq_dlq.cli._health import metrics_of
from rq_dlq.telemetry.metrics import WorkerMetrics
from tests.cli.conftest import Shell
from tests.cli.test_worker import port_of
from tests.servers import free_port, wait_until
from tests.tables import each_row
from tests.telemetry.exposition import read
from tests.telemetry.test_health import ask

APP = """
from prometheus_client import Counter

import rq_dlq

broker = rq_dlq.Broker()
orders = broker.queue("orders", redelivery=rq_dlq.RedeliveryPolicy(max_redeliveries=0))
charged = Counter("charged", "What the program itself counts.")


@orders.handler()
def charge(body):
    charged.inc(10)
    if body == "bad":
        raise ValueError("no")
"""


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_it_prints_them(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send_many([1, 2])
    seen = read(shell("metrics").stdout)
    assert seen['rq_dlq_messages{queue="orders",state="ready"}'] == 2
    assert seen["rq_dlq_up"] == 1


def test_as_json(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send(1)
    labels = {"queue": "orders", "state": "ready"}
    assert {"name": "rq_dlq_messages", "labels": labels, "value": 1.0} in shell.json("metrics")


def test_it_serves_them_until_a_signal(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send(1)
    port = free_port()
    with shell.process("metrics", "--listen", f"127.0.0.1:{port}") as process:
        wait_until(lambda: answers(port))
        url = f"http://127.0.0.1:{port}/metrics"
        with urlopen(url) as reply:
            seen = read(reply.read().decode())
        with urlopen(Request(url, headers={"Accept": "application/openmetrics-text"})) as reply:
            assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
            assert b"# UNIT rq_dlq_overdue_seconds seconds" in reply.read()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    assert process.returncode == 0
    assert seen['rq_dlq_sent_total{queue="orders"}'] == 1
    assert f"listening on {url}" in log


def test_without_redis_it_fails_but_a_server_waits(shell: Shell, tmp_path: object) -> None:
    away = Shell(f"unix://{tmp_path}/none.sock", "none", shell.directory, shell.warm)
    assert "cannot reach" in away("metrics", code=3).stderr
    port = free_port()
    with away.process("metrics", "--listen", f"127.0.0.1:{port}") as process:
        wait_until(lambda: answers(port))
        with urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
            assert read(reply.read().decode()) == {"rq_dlq_up": 0}
        process.terminate()


@each_row("command", ["metrics --listen", "maintain --health"])
@each_row("address", [":9464", "host", "localhost:", "localhost:99999", "localhost:x"])
def test_an_address_that_is_none(shell: Shell, command: str, address: str) -> None:
    assert "is not an address: pass HOST:PORT" in shell(*command.split(), address, code=2).stderr


def test_an_address_that_is_taken(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert (
            f"cannot listen on {where}: Address already in use"
            in shell("metrics", "--listen", where, code=2).stderr
        )


def test_without_the_extra_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert "pip install 'rq-dlq[metrics]'" in shell("metrics", code=2).stderr


def test_a_worker_shows_its_handlers_beside_what_the_program_measures(
    shell: Shell, broker: rq_dlq.Broker
) -> None:
    (shell.directory / "shop.py").write_text(APP)
    broker.queue("orders").send_many(["good", "bad", "good"])
    with shell.process("worker", "shop:broker", "--health", "0") as worker:
        port = port_of(worker)
        outcome = 'rq_dlq_handling_seconds_count{{outcome="{}",queue="orders"}}'
        seen: dict[str, float] = {}

        def done() -> bool:
            seen.update(read(ask(port, "/metrics")[1]))
            return sum(seen.get(outcome.format(name), 0) for name in ("acked", "dead")) == 3

        wait_until(done)
        worker.terminate()
        worker.wait(60)
    assert [seen[outcome.format(name)] for name in ("acked", "dead")] == [2, 1]
    assert seen['rq_dlq_time_in_queue_seconds_count{queue="orders"}'] == 3
    assert seen["charged_total"] == 30
    assert seen["process_cpu_seconds_total"] > 0


def test_a_program_may_observe_its_handlers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = rq_dlq.Broker("redis://nowhere")
    broker.observe(WorkerMetrics(CollectorRegistry()))
    assert [*metrics_of(broker)] == ["/metrics"]
    assert len(broker._client.observers) == 1
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert metrics_of(broker)["/metrics"]().status == 404
