"""The command line against a real server, each test in a namespace of its own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner, Result

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.core.looking import overview, trouble
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.values.process import ProcessReport
from tests.servers.warm import Warm, WarmProcess

ROOT = Path(rq_dlq.__file__).parent.parent


@dataclass
class Shell:
    """Types `rq-dlq …`.

    Attributes:
        warm: what starts processes.
        env: for what runs as a process of its own.
    """

    url: str
    namespace: str
    directory: Path
    warm: Warm | None = None
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.env = {"RQ_DLQ_URL": self.url, "RQ_DLQ_NAMESPACE": self.namespace, "PYTHONPATH": str(ROOT)}

    def __call__(self, *words: str, code: int = 0, typed: str | bytes | None = None) -> Result:
        options = ["--url", self.url, "--namespace", self.namespace]
        with mock.patch.dict(os.environ):  # a command passes its options to programs by them
            result = CliRunner().invoke(main, [*options, *words], input=typed)
        assert result.exit_code == code, result.output
        return result

    def json(self, *words: str) -> Any:
        """What it says with -o json."""
        return json.loads(self(*words, "-o", "json").stdout)

    @contextmanager
    def process(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run it as a process, which is gone at the end."""
        assert self.warm is not None, "this shell starts no process"
        process = WarmProcess(
            self.warm,
            [*words],
            cwd=self.directory,
            env=os.environ | self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def shell(redis_socket: str, tmp_path: Path, warm: Warm) -> Shell:
    return Shell(f"unix://{redis_socket}", f"cli-{secrets.token_hex(4)}", tmp_path, warm)


@pytest.fixture
def broker(shell: Shell) -> Iterator[rq_dlq.Broker]:
    with rq_dlq.Broker(shell.url, namespace=shell.namespace) as broker:
        yield broker


@pytest.fixture
def dead(broker: rq_dlq.Broker) -> Callable[..., list[str]]:
    """Send messages and let them die, for a reason."""

    def die(*bodies: Any, queue: str = "orders", why: str = "out of stock") -> list[str]:
        orders = broker.queue(queue)
        ids: list[str] = [*orders.send_many(bodies)]
        orders.poison(orders.claim(len(bodies)), why)
        return ids

    return die


@pytest.fixture
def hanging(broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is to be said of a queue whose worker holds messages for long, before any of them has failed."""
    for module in (overview, trouble):
        monkeypatch.setattr(module, "SLOW", -1)
    orders = broker.queue("orders")
    orders.send_many(range(9))
    orders.claim(4)
    own = {"orders": rq_dlq.ConsumerReport(4, held=4, oldest=45.0)}
    broker._run(Reporter(ProcessReport("web-1:4711", queues=own)).note(broker.settings.namespace))
    said = "1 worker holds 4 messages, the oldest for 45s"
    return f"{said}: if that is usual, start more workers; if not, their calls are slow or hang"
