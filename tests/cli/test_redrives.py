"""`rq-dlq dlq redrive` step by step, and `rq-dlq dlq jobs`."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import rq_dlq
from rq_dlq.cli import _show
from rq_dlq.core.processes.processes import Reporter
from rq_dlq.values.process import ConsumerReport, ProcessReport
from tests.cli.conftest import Shell
from tests.servers import wait_until

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
    assert shell.json(*words) == {
        "eligible": 1,
        "expired": 0,
        "gone": 1,
        "refused": 0,
        "leased": 0,
        "comes_back": 1,
    }
    assert broker.queue("orders").stats().dead == 2


def test_a_canary_that_succeeds(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(30))
    consumer = settle(broker, 5, well=True)
    done = shell("dlq", "redrive", "orders", "--all", "--yes", "--canary", "5", "-o", "jsonl", "--by", "anna")
    consumer.join()
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["moved"] for event in events] == sorted(event["moved"] for event in events)
    assert (events[0]["moved"], events[-1]["moved"], events[-1]["state"]) == (5, 30, "done")
    assert "moved 30 messages back" in done.stderr
    (row,) = shell.json("dlq", "jobs", "orders")
    assert (row["by"], row["acked"], row["chosen"]) == ("anna", 5, "all")
    assert "done" in shell("dlq", "jobs", "orders").stdout


def test_a_canary_that_fails_says_how_to_go_on(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(9))
    consumer = settle(broker, 3, well=False)
    ended = shell("dlq", "redrive", "orders", "--all", "--yes", "--canary", "3", "-o", "jsonl", code=4)
    consumer.join()
    (row,) = shell.json("dlq", "jobs", "orders")
    assert json.loads(ended.stdout.splitlines()[-1]) == row
    stopped = ended.stderr
    assert "0 of 3 messages that ended were acked" in stopped
    assert f"3 of 9 are back, and redrive {row['id']} is paused" in stopped
    assert f"`rq-dlq dlq jobs orders {row['id']} resume` continues" in stopped
    assert "moved 9 messages back" in shell("dlq", "jobs", "orders", row["id"], "resume").stderr
    assert broker.queue("orders").stats().ready == 6


def test_ctrl_c_pauses_it_and_undo_takes_it_back(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(40))
    words = ("dlq", "redrive", "orders", "--all", "--yes", "--rate", "1", "-o", "jsonl")
    with shell.process(*words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 4
        assert process.stderr is not None
        said = process.stderr.read()
        last = json.loads(process.stdout.read().splitlines()[-1])
    (row,) = shell.json("dlq", "jobs", "orders")
    assert last == row
    assert (row["state"], f"redrive {row['id']} is paused" in said) == ("paused", True)
    assert f"{row['moved']} of 40 are back" in said
    undone = shell("dlq", "jobs", "orders", row["id"], "undo", "--by", "ben", "-o", "json")
    assert f"redrive {row['id']} is undone" in undone.stderr
    assert json.loads(undone.stdout) == row | {"state": "undone", "undone": row["moved"], "why": ""}
    assert broker.queue("orders").stats().dead == 40
    assert shell.json("dlq", "jobs", "orders", row["id"])["state"] == "undone"


def test_a_killed_process_is_replaced_by_another(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*range(40))
    words = ("dlq", "redrive", "orders", "--all", "--yes", "--rate", "1", "-o", "jsonl")
    with shell.process(*words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    orders = broker.queue("orders")
    (job,) = orders.dlq.jobs()
    assert (job.state, 0 < job.counts.moved < 40) == ("running", True)
    shell("dlq", "jobs", "orders", job.id, "pause")
    shell("dlq", "jobs", "orders", job.id, "cancel")
    assert orders.stats().ready == job.refresh().counts.moved
    shell("dlq", "redrive", "orders", "--all", "--yes")
    assert (orders.stats().ready, orders.stats().dead) == (40, 0)


def test_what_is_done_is_not_resumed(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a")
    job = broker.queue("orders").dlq.redrive(all=True)
    told = shell("dlq", "jobs", "orders", job.id, "resume", code=1).stderr
    assert f"redrive {job.id} is already done" in told
    assert (
        f"cannot pause redrive {job.id}: it is done"
        in shell("dlq", "jobs", "orders", job.id, "pause", code=1).stderr
    )


def test_jobs_fit_into_a_terminal(
    shell: Shell, broker: rq_dlq.Broker, dead: Die, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(*range(25))
    consumer = settle(broker, 3, well=False)
    shell("dlq", "redrive", "orders", "--all", "--yes", "--canary", "3", code=4)
    consumer.join()
    (job,) = broker.queue("orders").dlq.jobs()
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 80)
    shown = shell("dlq", "jobs", "orders").stdout
    columns = "job state moved acked died began why"
    assert shown.splitlines()[0].split() == columns.split()
    assert f"{job.id} paused 3 of 25" in shown
    words = [line[shown.index("why") :] for line in shown.splitlines()[1:]]
    assert " ".join(" ".join(words).split()) == job.why
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 20)
    assert job.id in shell("dlq", "jobs", "orders").stdout


def test_a_dry_run_says_what_comes_back(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("a", ttl="1ms")
    wait_until(lambda: orders.maintain() is not None and orders.stats().expired == 1)
    words = ("dlq", "redrive", "EXP.orders", "--all", "--dry-run")
    assert "They are redriven anyway; with --ttl keep they stay dead" in shell(*words).stderr
    assert "They stay dead" in shell(*words, "--ttl", "keep").stderr
    assert [shell.json(*words, *keep)["comes_back"] for keep in ((), ("--ttl", "keep"))] == [1, 0]


def test_detached(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a", "b")
    begun = shell("dlq", "redrive", "orders", "--all", "--yes", "--detach", "-o", "json")
    assert "continues in the background" in begun.stderr
    orders = broker.queue("orders")
    assert json.loads(begun.stdout)["id"] == orders.dlq.jobs()[0].id
    orders.maintain()
    assert orders.stats().ready == 2


def test_detached_where_nobody_reports(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    idle = ConsumerReport(1)
    for report, told in (
        (ProcessReport("worker of others", queues={"mail": idle}), True),
        (ProcessReport("worker", queues={"orders": idle}), False),
        (ProcessReport("maintenance without redrives", roles=("expiry",)), True),
        (ProcessReport("maintenance", roles=("redrives",)), False),
    ):
        reporter = Reporter(report)
        broker._run(reporter.note(shell.namespace))
        lines = shell("dlq", "redrive", "orders", "--detach", "--id", *dead("a")).stderr.splitlines()
        broker._run(reporter.leave(shell.namespace))
        waits = [line for line in lines if line.startswith("no worker of orders and no maintenance process")]
        assert bool(waits) is told, report.process


def test_what_makes_no_sense_is_told(shell: Shell, dead: Die) -> None:
    dead("a")
    assert "there are no redrives" in shell("dlq", "jobs", "orders").stderr
    assert "there is no redrive 'nope'" in shell("dlq", "jobs", "orders", "nope", code=1).stderr
    assert "rate 0" in shell("dlq", "redrive", "orders", "--all", "--yes", "--rate", "0", code=2).stderr


# Changed on the way


def test_edited_by_a_merge_patch(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead({"total": "9", "old": 1, "to": {"street": "a", "zip": 2}}, {"total": "8"})
    patch = '{"total": 9, "old": null, "to": {"zip": 3}}'
    done = shell("dlq", "redrive", "orders", "--all", "--yes", "--edit", patch, "--ttl", "1h", "--by", "anna")
    assert "moved 2 messages back (edited, ttl 1h)" in done.stderr
    orders = broker.queue("orders")
    first, second = orders.claim(2)
    assert first.body == {"total": 9, "to": {"street": "a", "zip": 3}}
    assert second.body == {"total": 9, "to": {"zip": 3}}
    assert first.expires_at is not None
    (row,) = shell.json("dlq", "jobs", "orders")
    assert (row["how"], row["moved"], row["refused"]) == ("edited, ttl 1h", 2, 0)


def test_edited_by_a_json_patch_of_a_file(
    shell: Shell, broker: rq_dlq.Broker, dead: Die, tmp_path: Path
) -> None:
    pytest.importorskip("jsonpatch")
    dead({"total": "9"}, {"sum": 8}, b"bytes")
    file = tmp_path / "patch.json"
    file.write_text('[{"op": "replace", "path": "/total", "value": 9}]')
    words = ("dlq", "redrive", "orders", "--all", "--edit", str(file))
    plan = shell(*words, "--dry-run", "-o", "json")
    assert json.loads(plan.stdout) == {
        "eligible": 3,
        "expired": 0,
        "gone": 0,
        "refused": 2,
        "leased": 0,
        "comes_back": 1,
    }
    assert "can't replace a non-existent object 'total'" in plan.stderr
    told = shell(*words, "--yes", code=1).stderr
    assert "moved 1 message back (edited)" in told
    assert "can't replace a non-existent object 'total'" in told
    assert "the body is bytes, not JSON" in told
    assert "2 dead letters could not be changed and stay dead" in told
    assert [delivery.body for delivery in broker.queue("orders").claim(9)] == [{"total": 9}]


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("[", "not JSON"),
        ("nowhere.json", "cannot read 'nowhere.json'"),
        ('[{"op": "rewrite", "path": "/a"}]', "not a JSON patch: Unknown operation 'rewrite'"),
        ('[{"op": "remove", "path": "a"}]', "not a JSON patch"),
        ("[1]", "not a JSON patch"),
    ],
)
def test_what_is_no_patch(patch: str, why: str, shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    pytest.importorskip("jsonpatch")
    dead({"a": 1})
    assert why in shell("dlq", "redrive", "orders", "--all", "--yes", "--edit", patch, code=2).stderr
    assert (broker.queue("orders").stats().dead, broker.queue("orders").dlq.jobs()) == (1, [])


def test_to_another_queue(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a", "b", "c")
    words = ("dlq", "redrive", "orders", "--all", "--yes", "--to", "orders.v2")
    told = shell(*words, code=1).stderr
    assert "there is no queue 'orders.v2'" in told
    assert "--create creates it" in told
    assert broker.queues() == ["orders"]
    assert "moved 3 messages back (to orders.v2)" in shell(*words, "--create").stderr
    assert broker.queue("orders.v2").stats().ready == 3
    (row,) = shell.json("dlq", "jobs", "orders")
    assert "cannot undo redrive" in shell("dlq", "jobs", "orders", row["id"], "undo", code=1).stderr
    assert "not counted in another queue" in shell(*words, "--canary", "2", code=2).stderr


def test_a_time_to_live_that_is_over_is_kept(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("x", ttl="5ms")
    while not orders.stats().expired:
        orders.maintain()
    orders.send("y", ttl="1h")
    orders.poison(orders.claim())
    told = shell("dlq", "redrive", "EXP.orders", "--all", "--yes", "--ttl", "keep").stderr
    assert "1 dead letter stays dead: its time to live has ended" in told
    assert "moved 1 message back (ttl kept)" in (
        shell("dlq", "redrive", "orders", "--all", "--yes", "--ttl", "keep").stderr
    )
    assert (
        "ttl: 'soon' is not a duration"
        in shell("dlq", "redrive", "orders", "--all", "--yes", "--ttl", "soon", code=2).stderr
    )


def test_a_canary_of_edited_ones_that_fails_ends_it(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(*({"n": n} for n in range(9)))
    consumer = settle(broker, 3, well=False)
    words = ("dlq", "redrive", "orders", "--all", "--yes", "--canary", "3", "--edit", '{"n": 1}')
    stopped = shell(*words, code=4).stderr
    consumer.join()
    assert "3 of 9 are back, and redrive" in stopped
    assert "is cancelled; repeat the command for those that are still dead" in stopped
    assert broker.queue("orders").stats().dead == 9


@pytest.mark.parametrize("pace", [("--rate", "1"), ()], ids=["rate", "at once"])
def test_ctrl_c_ends_an_edited_one(
    pace: tuple[str, ...], shell: Shell, broker: rq_dlq.Broker, dead: Die
) -> None:
    many = 40 if pace else 5_000
    for start in range(0, many, 1_000):
        dead(*({"n": n} for n in range(start, min(many, start + 1_000))))
    words = ("dlq", "redrive", "orders", "--all", "--yes", *pace, "--edit", '{"n": 1}', "-o", "jsonl")
    with shell.process(*words) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 4
        assert process.stderr is not None
        assert "repeat the command for those that are still dead" in process.stderr.read()
    orders = broker.queue("orders")
    (job,) = orders.dlq.jobs()
    assert (job.state, orders.stats().dead + job.counts.moved) == ("cancelled", many)
