"""The benchmark beside the peers: its protocol, its servers, its tables. No peer is installed for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rq_dlq.client.settings import version_of
from tests import servers
from tests.benchmarks.peers import install, report
from tests.benchmarks.peers.measure import Measured
from tests.benchmarks.peers.peer import AS_IT_COMES
from tests.benchmarks.peers.servers import Redis
from tests.needs import need_release

FOLDER, ROOT = Path(install.__file__).parent, install.ROOT


def round_of(**rates: float) -> report.Round:
    """Each peer drains at this rate, as it comes."""
    return {peer: Measured({}, {AS_IT_COMES: rate}) for peer, rate in rates.items()}


def test_each_peer_has_an_adapter_and_each_version_is_pinned() -> None:
    adapters = {file.stem for file in (FOLDER / "adapters").iterdir() if file.suffix in {".py", ".mjs"}}
    assert adapters - {"__init__"} == set(install.REQUIREMENTS)
    pinned = {line.partition("==")[0] for line in (FOLDER / "constraints.txt").read_text().splitlines()}
    for peer in set(install.REQUIREMENTS) - {install.US, "bullmq"}:
        assert install.REQUIREMENTS[peer][0].partition("[")[0] in pinned


def test_a_goal_is_a_ratio_of_each_round() -> None:
    goal = report.Goal("ours : theirs", report.OURS, report.best("bullmq", "nowhere"), 4)
    rounds = [round_of(rq_dlq=30, bullmq=10), round_of(rq_dlq=50, bullmq=10), round_of(rq_dlq=45, bullmq=10)]
    assert goal.row(rounds) == ["ours : theirs", "≥ 4", "4.50 (3.00 to 5.00)", "yes"]
    assert goal.row([round_of(rq_dlq=30)]) is None


def test_readme_says_what_was_measured() -> None:
    measured = json.loads((ROOT / "docs" / "performance.json").read_text())["rounds"]
    rounds = [{peer: Measured({}, one["figures"]) for peer, one in found.items()} for found in measured]
    text = (ROOT / "README.md").read_text()
    assert report.in_readme(text, rounds) == text
    assert "It handles 1,234 messages" in report.in_readme(text, [round_of(rq_dlq=1_234, rq=1_000)])


def test_a_goal_without_a_peer_is_a_limit() -> None:
    goal = report.Goal("ms", report.OURS, None, 0.5)
    assert goal.row([round_of(rq_dlq=0.7)]) == ["ms", "≤ 0.5", "0.70 (0.70 to 0.70)", "no"]


def test_what_was_not_measured_is_told() -> None:
    one = round_of(rq_dlq=30)
    one["rq_dlq"].failed["8 threads"] = "it fell over"
    cells = dict(zip(report.figures([one]).header[1:], report.figures([one]).rows[0][1:], strict=True))
    assert cells["as it comes, /s"] == "30"
    assert cells["8 threads, /s"] == "failed"
    assert cells["10 async, /s"] == "-"
    assert report.failures([one]) == ["rq_dlq, 8 threads: it fell over"]


@pytest.mark.redis
def test_what_is_left_of_a_stream_is_what_its_group_has_not_acked(tmp_path: Path) -> None:
    port = servers.free_port()
    with servers.Server(tmp_path, port=port) as running, running.client() as client:
        need_release(version_of(client.info("server")["redis_version"]), 7)  # a group tells its lag
        server, command = Redis(port), [["XINFO", "GROUPS", "s"]]
        ids = [client.xadd("s", {"a": "b"}) for _ in range(5)]
        assert server.left(command) == 5
        client.xgroup_create("s", "g", id="0")
        client.xreadgroup("g", "me", {"s": ">"}, count=3)
        client.xack("s", "g", ids[0])
        assert server.left(command) == 4
        assert server.left([["XLEN", "s"], ["LLEN", "none"]]) == 5
