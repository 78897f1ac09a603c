"""`rq-dlq dlq redrive` step by step, and `rq-dlq dlq jobs`."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable

import rq_dlq
from tests.cli.conftest import Shell

Die = Callable[..., list[str]]


def settle(broker: rq_dlq.Broker, count: int, *, well: bool) -> threading.Thread:
    """A consumer that acks so many messages as they come, or poisons them."""

    def work() -> None:
        orders = broker.queue("orders")
        left = count
        while left:
            deliveries = orders.claim(left, wait="30s")
            left -= len(deliveries)
            if well:
                orders.ack(deliveries)
            else:
                orders.poison(deliveries, "again")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_dry_run_counts(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    ids = dead("a", "b")
    words = ("dlq", "redrive", "orders", "--id", ids[0], "--id", "nope", "--dry-run")
    assert shell.json(*words) == {"eligible": 1, "expired": 0, "gone": 1}
    assert broker.queue("orders").stats().dead == 2


def test_a_canary_that_succeeds(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(30))
    consumer = settle(broker, 5, well=True)
    done = shell("dlq", "redrive", "orders", "--all", "--yes", "--canary", "5", "-o", "jsonl", "--by", "anna")
    consumer.join()
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["moved"] for event in events] == sorted(event["moved"] for event in events)
    assert (events[0]["moved"], events[-1]["moved"], events[-1]["state"]) == (5, 30, "done")
    assert "brought 30 messages back" in done.stderr
    (row,) = shell.json("dlq", "jobs", "orders")
    assert (row["by"], row["acked"], row["chosen"]) == ("anna", 5, "all")
    assert "done" in shell("dlq", "jobs", "orders").stdout


def test_a_canary_that_fails_says_how_to_go_on(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(9))
    consumer = settle(broker, 3, well=False)
    stopped = shell("dlq", "redrive", "orders", "--all", "--yes", "--canary", "3", code=4).stderr
    consumer.join()
    (row,) = shell.json("dlq", "jobs", "orders")
    assert "of 3 messages that came to an end 0 were acked" in stopped
    assert f"3 of 9 are back, and redrive {row['job']} is paused" in stopped
    assert f"`rq-dlq dlq jobs orders {row['job']} resume` goes on" in stopped
    assert "brought 9 messages back" in shell("dlq", "jobs", "orders", row["job"], "resume").stderr
    assert broker.queue("orders").stats().ready == 6


def test_ctrl_c_pauses_it_and_undo_takes_it_back(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(40))
    words = ("dlq", "redrive", "orders", "--all", "--yes", "--rate", "1", "-o", "jsonl")
    with shell.process(*words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 4
        assert process.stderr is not None
        said = process.stderr.read()
    (row,) = shell.json("dlq", "jobs", "orders")
    assert (row["state"], f"redrive {row['job']} is paused" in said) == ("paused", True)
    assert f"{row['moved']} of 40 are back" in said
    undone = shell("dlq", "jobs", "orders", row["job"], "undo", "--by", "ben").stderr
    assert f"redrive {row['job']} is undone" in undone
    assert broker.queue("orders").stats().dead == 40
    assert shell.json("dlq", "jobs", "orders", row["job"])["state"] == "undone"


def test_a_killed_process_is_replaced_by_another(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(40))
    words = ("dlq", "redrive", "orders", "--all", "--yes", "--rate", "1", "-o", "jsonl")
    with shell.process(*words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    orders = broker.queue("orders")
    (job,) = orders.dlq.jobs()
    assert (job.state, 0 < int(job) < 40) == ("running", True)
    shell("dlq", "jobs", "orders", job.id, "pause")
    shell("dlq", "jobs", "orders", job.id, "cancel")
    assert orders.stats().ready == int(job.refresh())
    shell("dlq", "redrive", "orders", "--all", "--yes")
    assert (orders.stats().ready, orders.stats().dead) == (40, 0)


def test_detached(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a", "b")
    assert "goes on by itself" in shell("dlq", "redrive", "orders", "--all", "--yes", "--detach").stderr
    orders = broker.queue("orders")
    orders.maintain()
    assert orders.stats().ready == 2


def test_what_makes_no_sense_is_told(shell: Shell, dead: Die) -> None:
    dead("a")
    assert "there are no redrives" in shell("dlq", "jobs", "orders").stderr
    assert "there is no redrive 'nope'" in shell("dlq", "jobs", "orders", "nope", code=2).stderr
    assert "rate 0" in shell("dlq", "redrive", "orders", "--all", "--yes", "--rate", "0", code=2).stderr
