"""What operators look at, while a node is dead: the queues of the others, and words about its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rq_dlq
from tests.cli.conftest import Shell
from tests.dead_nodes.conftest import HERE, LOST, THERE, Kill
from tests.servers.clusters import Cluster

BY_NODE = (LOST, HERE, THERE)


@pytest.fixture
def shell(nodes: Cluster, tmp_path: Path) -> Shell:
    return Shell(f"redis://127.0.0.1:{nodes.nodes[1].port}", "rq", tmp_path)


@pytest.fixture
def filled(shell: Shell, kill: Kill) -> Iterator[rq_dlq.Broker]:
    """A broker with a message in each queue."""
    del kill
    with rq_dlq.Broker(shell.url) as broker:
        for name in BY_NODE:
            broker.queue(name).send("x")
        yield broker


def test_queue_ls(shell: Shell, filled: rq_dlq.Broker, kill: Kill) -> None:
    """The row says which node; programs get no counts that nobody knows."""
    del filled
    port = kill(0).port
    result = shell("queue", "ls", code=3)
    (row,) = (line for line in result.stdout.splitlines() if LOST in line)
    assert f"unreachable: node 127.0.0.1:{port}" in row
    assert "1 of 3 queues cannot be read" in result.stderr
    rows = {row["name"]: row for row in shell_json(shell)}
    assert [rows[name]["ready"] for name in (HERE, THERE)] == [1, 1]
    assert rows[LOST]["unreachable"] == f"unreachable: node 127.0.0.1:{port}"
    assert rows[LOST]["error"].endswith("does not answer")
    assert "ready" not in rows[LOST]


def shell_json(shell: Shell) -> Any:
    return json.loads(shell("queue", "ls", "-o", "json", code=3).stdout)


def test_queue_ls_without_the_processes(shell: Shell, filled: rq_dlq.Broker, kill: Kill) -> None:
    del filled
    port = kill(2).port
    result = shell("queue", "ls", code=3)
    assert f"unreachable: node 127.0.0.1:{port}" in result.stdout
    assert "the processes that maintain them cannot be read: " in result.stderr


@pytest.mark.parametrize("number", [0, 2])
def test_top(number: int, shell: Shell, filled: rq_dlq.Broker, kill: Kill) -> None:
    """The third node has the workers, too."""
    del filled
    port = kill(number).port
    shown = shell("top", "--once", "--every", "100ms", code=3).stdout
    assert f"unreachable: node 127.0.0.1:{port}, with 1 queue: {BY_NODE[number]}" in shown
    assert "in 2 queues that can be read" in shown
    assert ("the worker processes cannot be read: " in shown) == (number == 2)


@pytest.mark.parametrize("number", [0, 2])
def test_metrics(number: int, shell: Shell, filled: rq_dlq.Broker, kill: Kill) -> None:
    """What is not known has no figure."""
    pytest.importorskip("prometheus_client", reason="no metrics extra here: pip install -e '.[metrics]'")
    from tests.telemetry.exposition import read  # noqa: PLC0415

    del filled
    kill(number)
    values = read(shell("metrics").stdout)
    assert values["rq_dlq_up"] == 1
    for name in BY_NODE:
        up = name != BY_NODE[number]
        assert values[f'rq_dlq_queue_up{{queue="{name}"}}'] == up
        assert (f'rq_dlq_messages{{queue="{name}",state="ready"}}' in values) == up
        assert (f'rq_dlq_workers{{queue="{name}"}}' in values) == (number == 0)
    assert values['rq_dlq_list_up{list="queues"}'] == 1
    assert values['rq_dlq_list_up{list="processes"}'] == (number == 0)
    assert ("rq_dlq_maintenance_processes" in values) == (number == 0)


def test_metrics_without_the_list(monkeypatch: pytest.MonkeyPatch, filled: rq_dlq.Broker, kill: Kill) -> None:
    """They go on with the queues that were there before."""
    pytest.importorskip("prometheus_client", reason="no metrics extra here: pip install -e '.[metrics]'")
    from rq_dlq.telemetry import metrics  # noqa: PLC0415
    from tests.telemetry.exposition import registry_of, scrape  # noqa: PLC0415

    monkeypatch.setattr(metrics, "MAX_AGE", 0.0)
    registry = registry_of(metrics.QueueCollector(filled))
    assert scrape(registry)['rq_dlq_list_up{list="queues"}'] == 1
    kill(1)
    values = scrape(registry)
    assert values['rq_dlq_list_up{list="queues"}'] == 0
    assert [values[f'rq_dlq_queue_up{{queue="{name}"}}'] for name in BY_NODE] == [1, 0, 1]


def test_an_assistant_is_told(shell: Shell, filled: rq_dlq.Broker, kill: Kill) -> None:
    pytest.importorskip("mcp", reason="no mcp extra here: pip install -e '.[mcp]'")
    from rq_dlq.cli._context import Context  # noqa: PLC0415
    from rq_dlq.cli.mcp.tools import Tools  # noqa: PLC0415
    from rq_dlq.values.masks import Masks  # noqa: PLC0415

    del filled
    port = kill(0).port
    tools = Tools(Context(shell.url), Masks(), bodies=False)
    answer = json.loads(tools.queues())
    assert {row["name"] for row in answer["queues"]} == {HERE, THERE}
    assert answer["unreachable"] == [LOST]
    assert answer["gaps"] == [f"unreachable: node 127.0.0.1:{port}, with 1 queue: {LOST}"]
