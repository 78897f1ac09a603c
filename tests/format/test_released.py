"""A process of 0.1.0 on a queue with a breaker: it refuses the queue, whoever has set the breaker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rq_dlq
from rq_dlq.doctor import queues
from rq_dlq.doctor.queues import DECLARED_BEFORE
from tests.checkout import ROOT

NEEDS = {"rq_dlq", "lua"}
OPENS = """
import sys, rq_dlq
broker = rq_dlq.Broker(sys.argv[1])
try:
    broker.queue("a").send("x", dependency="payments")
except rq_dlq.UpgradeRequired as error:
    print("refused:", error)
else:
    print("opened by", rq_dlq.__version__)
"""
DECLARES = """
import sys, rq_dlq
queue = rq_dlq.Broker(sys.argv[1]).queue("a", breaker=rq_dlq.Breaker())
try:
    queue.send("x", dependency="payments")
    sys.stdin.read()
    queue.send("y", dependency="payments")
except rq_dlq.UpgradeRequired:
    print("refused")
else:
    print("sent")
"""
SETS = """
import sys, rq_dlq
broker = rq_dlq.Broker(sys.argv[1])
broker.policies.set("a", breaker="on")
queue = broker.queue("a")
queue.send("x", dependency="payments")
sys.stdin.read()
try:
    queue.send("y", dependency="payments")
except rq_dlq.UpgradeRequired:
    print("refused")
else:
    print("sent")
"""


def git(*words: str) -> bytes:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, check=False).stdout


RELEASE = git("log", "--format=%H", "--grep", "^Release 0.1.0$").decode().strip()
needs_release = pytest.mark.skipif(not RELEASE, reason="the commit of 0.1.0 is not in this checkout")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of 0.1.0."""
    path = tmp_path_factory.mktemp("released")
    (path / "released.zip").write_bytes(git("archive", "--format=zip", RELEASE, *NEEDS))
    shutil.unpack_archive(path / "released.zip", path)
    return path


def process(released: Path, program: str, *words: str) -> subprocess.Popen[str]:
    """A process of 0.1.0."""
    return subprocess.Popen(
        (sys.executable, "-c", program, *words),
        env=os.environ | {"PYTHONPATH": str(released)}, cwd=released,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@needs_release
@pytest.mark.parametrize("who", ["program", "operator"])
def test_it_refuses_a_queue_with_a_breaker(who: str, released: Path, empty_socket: str) -> None:
    url = f"unix://{empty_socket}"
    with rq_dlq.Broker(url) as broker:
        if who == "operator":
            broker.policies.set("a", breaker="on")
        queue = broker.queue("a", breaker=rq_dlq.Breaker()) if who == "program" else broker.queue("a")
        queue.open()
        said, _ = process(released, OPENS, url).communicate(timeout=60)
    assert said.startswith("refused: ")


@needs_release
def test_one_that_declares_the_breaker_is_named_and_can_be_kept_out(
    released: Path, empty_socket: str
) -> None:
    """0.1.0 does not read an entry that its own one replaces, and gets errors; a pinned one it must read."""
    url = f"unix://{empty_socket}"
    with rq_dlq.Broker(url) as broker:
        broker.queue("a", breaker=rq_dlq.Breaker()).open()
        assert found(broker) == ("ok", "no lane has a number of 0.1.0")
        running = process(released, DECLARES, url)
        while not broker.queue("a").stats().ready:
            assert running.poll() is None
        assert found(broker) == ("warn", f"a: {DECLARED_BEFORE}")
        broker.policies.set("a", breaker="on", pinned=True)
        said, _ = running.communicate("", timeout=60)
        assert said.strip() == "refused"
        said, _ = process(released, DECLARES, url).communicate("", timeout=60)
        assert said.strip() == "refused"
        assert found(broker) == ("ok", "no lane has a number of 0.1.0")


def found(broker: rq_dlq.Broker) -> tuple[str, str]:
    """What the doctor finds of lanes."""
    check = broker._run(queues.former(broker.settings))
    return check.state, check.found


@needs_release
def test_one_that_runs_stops_when_a_new_one_comes(released: Path, empty_socket: str) -> None:
    """The queue had its breaker from 0.1.0, whose messages are read."""
    url = f"unix://{empty_socket}"
    running = process(released, SETS, url)
    with rq_dlq.Broker(url) as broker:
        while not broker.queue("a").stats().ready:
            assert running.poll() is None
        queue = broker.queue("a")
        assert [one.dependency for one in queue.claim(9)] == ["payments"]
        assert queue.settings().breaker == rq_dlq.Breaker()
        said, _ = running.communicate("", timeout=60)
        assert said.strip() == "refused"
        said, _ = process(released, OPENS, url).communicate(timeout=60)
        assert said.startswith("refused: ")
