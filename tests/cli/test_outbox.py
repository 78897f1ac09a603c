"""`rq-dlq outbox`."""

from __future__ import annotations

import signal

import rq_dlq
from tests.cli.conftest import Shell
from tests.cli.test_worker import port_of
from tests.needs import need
from tests.servers import wait_until
from tests.telemetry.test_health import ask

need("sqlalchemy", "outbox")

APP = """
from sqlalchemy import create_engine

import rq_dlq
from rq_dlq.outbox import Outbox

broker = rq_dlq.Broker()
orders = broker.queue("orders")
engine = create_engine("sqlite:///shop.db")
Outbox.metadata.create_all(engine)
outbox = Outbox(broker, engine)

with engine.begin() as connection:
    outbox.send(connection, orders, 42)
"""


def test_it_sends_until_a_signal(shell: Shell, broker: rq_dlq.Broker) -> None:
    (shell.directory / "shop.py").write_text(APP)
    with shell.process("outbox", "shop:outbox", "--health", "0") as relay:
        port = port_of(relay)
        wait_until(lambda: broker.queue("orders").stats().ready == 1)
        wait_until(lambda: ask(port, "/readyz")[0] == 200)
        assert ask(port, "/livez")[0] == 200
        relay.send_signal(signal.SIGTERM)
        _, log = relay.communicate(timeout=60)
    assert relay.returncode == 0, log
    assert "stopped: sent 1 message" in log


def test_a_burst_ends_when_the_outbox_is_empty(shell: Shell, broker: rq_dlq.Broker) -> None:
    (shell.directory / "shop.py").write_text(APP)
    with shell.process("outbox", "shop:outbox", "--burst") as relay:
        _, log = relay.communicate(timeout=60)
    assert relay.returncode == 0, log
    assert broker.queue("orders").stats().ready == 1
