"""`rq-dlq demo`."""

from __future__ import annotations

import json

import psutil
import pytest
import redis

from examples.demo.play import DISTINCT, MOST_DEAD
from examples.demo.stage import read_flights
from tests.cli.conftest import Shell
from tests.servers import wait_until
from tests.tables import each_row


@pytest.mark.slow  # CI runs the demo itself (tests/stranger.py), which fails if its sums do not add up
@pytest.mark.parametrize("rows", [600, 20])
def test_the_sums_add_up_and_nothing_is_left(rows: int, shell: Shell, redis_socket: str) -> None:
    """Also with few flights, so that each scene has few payments."""
    words = ["--url", shell.url, "-o", "json", "demo", "--rows", str(rows), "--seconds", "6"]
    with redis.Redis(unix_socket_path=redis_socket) as client, shell.process(*words) as demo:
        before = set(client.keys())
        stdout, stderr = demo.communicate(timeout=280)
        assert set(client.keys()) <= before  # what other tests left may go meanwhile
    assert demo.returncode == 0, stderr
    told = json.loads(stdout)
    assert told["sent"] == rows == told["acked"] + told["dead"] + told["expired"]
    assert (told["lost"], told["twice"]) == (0, 0)
    assert told["redriven"] > 0
    assert told["payments"] == told["payments_owed"]
    assert told["dollars"] == told["dollars_owed"]
    second = told["second_outage"]
    assert second["died"] == 0 < second["waited"]
    assert 0 < second["refused"] < second["waited"] + 20
    assert min(told["rescued"]) > told["lease"] / 2
    assert all(told["sums"].values())
    scenes = (
        "the payment service fails",
        "is killed (SIGKILL)",
        "fails again",
        "is open",
        "redrive:",
        "all is done",
    )
    for text in scenes:
        assert text in stderr


@each_row("rows", range(20, 1960, 97))
def test_each_scene_has_payments(rows: int) -> None:
    """A quarter of them, in the first outage more than have to die, in the second one enough to notice it."""
    owed = sum(flight.owed > 0 for flight in read_flights(rows))
    assert max(1, min(MOST_DEAD, owed // 8)) < owed // 4
    assert max(2, min(DISTINCT, owed // 8)) <= owed // 4


def test_a_signal_stops_everything(shell: Shell, redis_socket: str) -> None:
    """Whichever it is: each interrupts, as those of `rq-dlq bench` do (`test_bench`)."""
    with redis.Redis(unix_socket_path=redis_socket) as client:
        before = set(client.keys())
        with shell.process("--url", shell.url, "demo") as demo:
            parent = psutil.Process(demo.pid)
            wait_until(lambda: len(parent.children()) == 4)
            workers = parent.children()
            wait_until(lambda: set(client.keys()) - before)
            demo.terminate()
            _, stderr = demo.communicate(timeout=60)
        assert demo.returncode == 4
        assert stderr.endswith("Error: stopped\n")
        assert not any(worker.is_running() for worker in workers)
        assert set(client.keys()) <= before  # what other tests left may go meanwhile
