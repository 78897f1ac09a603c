"""`rq-dlq maintain`, and what `rq-dlq queue ls` says of it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import rq_dlq
from rq_dlq._redis.loading import NO_FUNCTIONS
from tests.cli.conftest import Shell
from tests.servers import wait_until
from tests.tables import each_row


def maintainers(shell: Shell) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = shell.json("queue", "ls", "--maintainers")
    return rows


def end(process: subprocess.Popen[str]) -> list[str]:
    """Have it end, which must be in order; the lines of its log, without the time."""
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    return of_maintenance([line.partition(" ")[2] for line in log.splitlines()])


def of_maintenance(lines: list[str]) -> list[str]:
    """What a log says of maintenance: on Redis 6.2 it also says that there are no functions."""
    return [line for line in lines if NO_FUNCTIONS not in line]


def test_it_maintains_until_a_signal(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(range(1_234), ttl="1ms")
    with shell.process("maintain", "--period", "50ms") as process:
        wait_until(lambda: orders.stats().expired == 1_234)
        process.terminate()
        log = end(process)
    assert log[0].startswith(f"maintaining the queues of {shell.namespace} at unix://")
    assert log[0].endswith(": redelivery, expiry, retention, commits, schedules, redrives, every 50ms")
    assert any(line.startswith("1,234 expired; 1 queue, longest round ") for line in log)
    assert "SIGTERM: finishing running calls" in log[-3:]  # a line of figures may come between
    assert log[-1].startswith("stopped: 1,234 expired; 1 queue, ")
    assert maintainers(shell) == []


def test_the_roles_can_be_chosen_and_ctrl_c_ends_it(shell: Shell, broker: rq_dlq.Broker) -> None:
    """As with a message-expiry-scan-period of -1: nobody scans for what expires. The log is JSON here."""
    orders = broker.queue("orders")
    orders.send("mortal", ttl="1ms")
    orders.send("due", delay="1ms")
    options = ("--roles", "retention, redelivery", "--period", "50ms", "--log-format", "json")
    with shell.process("maintain", *options) as process:
        wait_until(lambda: orders.stats().ready == 2)
        (row,) = maintainers(shell)
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert row["roles"] == "redelivery,retention"
    lines = [json.loads(line) for line in log.splitlines()]
    assert {line["logger"] for line in lines} >= {"rq_dlq.maintenance"}
    first, *_, last = of_maintenance([line["message"] for line in lines])
    assert first.endswith(": redelivery, retention, every 50ms")
    assert "SIGINT: finishing running calls" in [line["message"] for line in lines[-3:]]
    assert last.startswith("stopped: ")
    assert orders.stats().expired == 0
    assert maintainers(shell) == []


def test_queue_ls_says_who_maintains(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("x", ttl="1ms")
    assert (
        "no maintenance process (`rq-dlq maintain`): workers and claiming clients do its work"
        in shell("queue", "ls").stderr
    )
    assert "no maintenance process" in shell("queue", "ls", "--maintainers").stderr
    with shell.process("maintain", "--roles", "expiry") as process:
        wait_until(lambda: [row["expired"] for row in maintainers(shell)] == [1])
        result = shell("queue", "ls")
        assert "orders" in result.stdout
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("maintained by")]
        assert f":{process.pid} (expiry), seen " in line
        shown = shell("queue", "ls", "--maintainers").stdout
        assert str(process.pid) in shown
        assert "1 expired" in shown
        lines = shell("queue", "ls", "-o", "jsonl").stdout.splitlines()
        assert [json.loads(line)["name"] for line in lines] == ["orders"]
        assert shell("queue", "ls", "-o", "json").stderr == ""


@each_row(
    ("words", "said"),
    [
        (["--roles", "reaper"], "there is no role 'reaper': choose from redelivery, expiry, retention"),
        (["--roles", "expiry,,"], "there is no role '': choose from redelivery, expiry, retention"),
        (["--roles", ""], "choose from redelivery, expiry, retention"),
        (["--period", "often"], "period: 'often' is not a duration"),
        (["--period", "-1"], "period: '-1' is not a duration"),
        (["--period", "0"], "Pass 10ms to "),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(shell: Shell, words: list[str], said: str) -> None:
    assert said in " ".join(shell("maintain", *words, code=2).stderr.split())


def test_a_server_that_was_never_there_is_code_3(shell: Shell, tmp_path: Path) -> None:
    shell.env["RQ_DLQ_URL"] = f"unix://{tmp_path}/none.sock"
    with shell.process("maintain") as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "cannot reach" in log
    assert "maintaining" not in log
    assert "Traceback" not in log
