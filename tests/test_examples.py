"""The examples run as they are, and print what they say: the first as a program, the others begin warm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from rq_dlq.core.looking.trouble import troubles
from tests.needs import need
from tests.servers.started import Started
from tests.servers.warm import Warm, WarmProcess

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
SPARK = "_spark_"
"""Run in the session of Spark's tests: `tests/spark/test_examples.py`."""
SHOWN_FIRST = ("03_dead_letters.py", "14_outages.py", "15_canary.py")
"""By README, on a newcomer's server: `rq-dlq top` has nothing to say afterwards."""
SAYS = {
    "01_send_and_claim.py": ["order 3 delivery 1", "5 acked in one call", "1 scheduled for later"],
    "02_worker.py": [
        "charged order 1 at delivery 1",
        "charged order 2 at delivery 2",
        "order 3 is dead: poison",
    ],
    "03_dead_letters.py": ["3 x exhausted: ConnectionRefusedError", "3 redriven", "1 time redriven"],
    "04_policies.py": ["[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]", "[5.0, 10.0, 20.0, 40.0]"],
    "05_asyncio.py": ["100 in all"],
    "06_expiry.py": ["still good: [{'price': 10.7}]", "({'price': 10.5}, 'expired')"],
    "07_sessions.py": ["rolled back: 0 invoices, 3 orders", "committed: 3 invoices, 0 orders"],
    "08_manage.py": [
        "max_redeliveries = 0 (from mail.#)",
        "{'a': 2, 'b': 2}",
        "brought back: 2",
        "removed: 2",
    ],
    "10_tasks.py": [
        "the arguments do not fit add(a: int, b: int): Expected `int`, got `str`",
        "to Emmy: Willkommen, born 1882",
        "waits for another version: the arguments do not fit add(a: int, b: int): Object missing",
        "1 + 2 = 3",
    ],
    "13_keys.py": ["3 workers killed, 240 orders done", "0 customers out of order"],
    "14_outages.py": [
        "payments are down: True",
        "100 done, 0 dead",
        "fewer than 40 attempts failed: True",
    ],
    "15_canary.py": [
        "100 dead: ConnectionRefusedError",
        "5 came back, then it paused: 0 of 5 messages that ended were acked",
        "100 came back, then it is done; 0 are dead",
    ],
    "16_results.py": [
        "dead: ValueError: no data for November yet",
        "{'month': '2026-11', 'total': 2000}",
    ],
    "17_outbox.py": [
        "rolled back: order 3 costs less than nothing",
        "2 messages sent",
        "the worker was killed between commit and ack",
        "order 2 is booked already",
        "booked: [1, 2]",
    ],
    "18_known_ids.py": [
        "20: new, sent",
        "19: ready, replaced",
        "indexing 19",
        "18: leased, again",
        "17: leased, again",
        "indexing 17",
        "None",
        "ready",
        "acked",
    ],
    "11_sentry.py": [
        "reported: ConnectionError: the bank does not answer",
        "reported: ValueError: the amount is negative",
        "3 dead: ConnectionError",
        "1 dead: ValueError",
    ],
}


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if SPARK not in path.name], ids=lambda path: path.name
)
def test_an_example_runs(path: Path, redis_socket: str, warm: Warm) -> None:
    for part, module, extra in ("sentry", "sentry_sdk", "dev"), ("outbox", "sqlalchemy", "outbox"):
        if part in path.name:
            need(module, extra)
    environment = {
        **os.environ,
        "RQ_DLQ_URL": f"unix://{redis_socket}",
        "RQ_DLQ_NAMESPACE": path.stem,  # other tests may have left a queue of the same name
        "PYTHONPATH": str(ROOT),
    }
    options: Any = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        Started([sys.executable, str(path)], **options)
        if path == EXAMPLES[0]
        else WarmProcess(warm, [], module=path.stem, cwd=path.parent, **options)
    ) as example:
        stdout, stderr = example.communicate()
    assert example.returncode == 0, stderr
    for line in SAYS[path.name]:
        assert line in stdout
    assert stdout.count("reported:") in {0, 2}  # to Sentry: each group of dead letters once
    if path.name in SHOWN_FIRST:
        with rq_dlq.Broker(f"unix://{redis_socket}", namespace=path.stem) as broker:
            seen = broker.overview()
            assert troubles(seen.queues, seen.at) == []
            assert all(queue.stats.waiting == queue.stats.leased == 0 for queue in seen.queues)
