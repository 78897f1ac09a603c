"""The alert rules, the dashboard and the page of metrics name what is there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry

import rq_dlq
from rq_dlq.cli import main
from rq_dlq.core.looking import trouble
from rq_dlq.core.redrive import record as redrive
from rq_dlq.telemetry import _queues
from rq_dlq.telemetry.metrics import QueueCollector, WorkerMetrics
from rq_dlq.values import counts
from tests.needs import needs
from tests.tables import each_row
from tests.telemetry.test_queue_metrics import bury, report

ROOT = Path(__file__).parent.parent.parent
OBSERVE = ROOT / "examples" / "observe"
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
RULES = [
    rule
    for group in yaml.safe_load((OBSERVE / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((OBSERVE / "dashboard.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
COMMANDS = [shlex.split(text)[1:] for text in re.findall(r"`(rq-dlq [^`]+)`", PAGE)]
QUERIES = [rule["expr"] for rule in RULES] + [query["expr"] for panel in PANELS for query in panel["targets"]]
USED = re.compile(r"\b(rq_dlq_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"')
BY = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


@pytest.fixture
def shown(sync_broker: rq_dlq.Broker, raw: Any) -> dict[str, dict[str, set[str]]]:
    """The labels of each metric, with their values, where everything has happened once."""
    registry = CollectorRegistry()
    registry.register(QueueCollector(sync_broker))
    sync_broker.observe(WorkerMetrics(registry))
    orders = sync_broker.queue("orders")
    bury(orders, 3, ValueError("sold out"))
    orders.dlq.redrive(limit=1).wait("5s")
    orders.dlq.redrive(all=True, canary=1).pause()
    with orders.claim()[0]:
        pass
    orders.dependency("payments").pause()
    report(raw, "a:1", queues={"orders": {"concurrency": 1}})
    report(raw, "a:2", roles=["redelivery"])
    report(raw, "outbox/shop", outbox={"name": "shop"})
    found: dict[str, dict[str, set[str]]] = {}
    for family in registry.collect():
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def test_queries_name_metrics_and_labels_that_are_there(shown: dict[str, dict[str, set[str]]]) -> None:
    for query in QUERIES:
        used = USED.findall(query)
        assert used
        for name, selector in used:
            assert name in shown, query
            for label, value in LABEL.findall(selector):
                assert label in shown[name], query
                assert value in shown[name][label] | {"$queue"}, query
        grouped = {label.strip() for labels in BY.findall(query) for label in labels.split(",") if label}
        assert grouped <= {label for name, _ in used for label in shown[name]}, query


def test_the_page_has_each_metric_with_its_labels(shown: dict[str, dict[str, set[str]]]) -> None:
    parts = re.compile(r"_(?:bucket|count|sum)$")
    there = {
        parts.sub("", name): {*labels} - {"le"}
        for name, labels in shown.items()
        if not name.endswith("_created")
    }
    rows = re.findall(r"^\| `(rq_dlq_\w+)` \| ([\w, ]*) ?\|", PAGE, re.MULTILINE)
    assert {name: set(labels.replace(",", " ").split()) for name, labels in rows} == there


def test_the_page_has_the_values_of_labels() -> None:
    """Those that are words, and not names."""
    for name, values in (
        ("rq_dlq_messages", _queues.STATES),
        ("rq_dlq_died_total", counts.DIED),
        ("rq_dlq_redrive_jobs", redrive.STATES),
        ("rq_dlq_redrive_messages", redrive.NUMBERS),
    ):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` "))
        assert set(values) <= set(re.findall(r"\w+", row)), name


def test_each_section_of_an_alert_says_what_to_do() -> None:
    """By a command of ours; and no alert is shipped elsewhere, where this test does not look."""
    for rule in RULES:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        sections = re.split(r"^#+ ", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        (section,) = [one for one in sections if one.partition("\n")[0].lower() == anchor]
        assert re.search(r"`rq-dlq \w+", section), rule["alert"]
    files = [file for folder in ("examples", "docs", "rq_dlq") for file in (ROOT / folder).rglob("*.y*ml")]
    assert [file for file in files if "alert:" in file.read_text()] == [OBSERVE / "alerts.yaml"]


def test_the_page_has_each_alert() -> None:
    assert re.findall(r"^### (\w+)", PAGE, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook_url"] == f"docs/metrics.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning"}


@each_row(
    ("name", "limit"),
    [
        ("RqDlqOldestTooOld", trouble.OLD),
        ("RqDlqMaintenanceOverdue", trouble.OVERDUE),
        ("RqDlqScheduleOverdue", trouble.OVERDUE),
    ],
)
def test_an_alert_has_the_limit_of_top_and_the_page(name: str, limit: float) -> None:
    (rule,) = (rule for rule in RULES if rule["alert"] == name)
    assert re.findall(r"_seconds > (\S+)", rule["expr"]) == [f"{limit:g}"]


@each_row("words", COMMANDS)
def test_a_command_of_the_page_is_there(words: list[str]) -> None:
    command: click.Command | None = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        word, *words = words
        command = command.get_command(context, word)
    assert command is not None
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@needs("promtool")
@pytest.mark.parametrize(
    "check",
    [
        ("check", "rules", OBSERVE / "alerts.yaml"),
        ("test", "rules", Path(__file__).parent / "alerts.test.yaml"),
        ("test", "rules", Path(__file__).parent / "outage.test.yaml"),
    ],
)
def test_by_promtool(check: tuple[str | Path, ...]) -> None:
    """The syntax of the rules; that each alert fires where it should, and no other."""
    done = subprocess.run(["promtool", *check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test_in_which_it_fires() -> None:
    told = (Path(__file__).parent / "alerts.test.yaml").read_text()
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"RqDlq\w+", told))
