"""What of the comparison needs no broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rq_dlq.policy_files import read_broker_xml
from tests import servers
from tests.assembled_lua import ROOT
from tests.proofs.live_brokers import programs
from tests.proofs.live_brokers.__main__ import main
from tests.proofs.live_brokers.facts import Facts, Waits, better, compare, differs, shown
from tests.proofs.live_brokers.program import BROKERS
from tests.proofs.live_brokers.scenario import Scenario
from tests.proofs.live_brokers.table import PAGE, Part, Row, markers, with_table

FAST: Facts = {"deliveries": 2, "waits": Waits((500,))}


@pytest.fixture
def page() -> str:
    return PAGE.read_text("utf-8")


def test_names_are_told_apart() -> None:
    names = [name for broker in BROKERS for name in (broker.key, *broker.scenarios)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z-]+", name) for name in names)


def test_our_importer_reads_the_file_of_the_brokers() -> None:
    reading = read_broker_xml(programs.POLICIES.read_bytes(), {})
    assert not reading.problems
    assert {"own.#", "shared.#", "again.fixed", "*.#"} <= set(reading.entries)


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


def test_the_table_goes_between_its_markers(page: str) -> None:
    scenario = Scenario("one", "a | b", lambda _: {}, {"count": better("more")})
    row = Row(scenario, {"count": 1, "kept": True}, {"count": 2, "kept": True}, 0.1)
    written = with_table(page, Part("classic", "Classic 5", "rq_dlq 1", [row]))
    assert (
        "| a \\| b | count: 1; kept: yes | count: 2; kept: yes | better on purpose | count: more |" in written
    )
    assert with_table(written, Part("classic", "Classic 5", "rq_dlq 1", [row])) == written
    before, after = page.partition(markers("classic")[0])[0], page.partition(markers("classic")[1])[2]
    assert written.startswith(before)
    assert written.endswith(after)


def test_facts_are_shown_as_words() -> None:
    facts: Facts = {"ends_in": (), "own.a": ("DLQ.own.a",), "same": False, "waits": Waits((1, 2))}
    assert shown(facts) == "ends in: none; own.a: DLQ.own.a; same: no; waits: +1 +2"


def test_what_is_missing_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name in {"javac", "nats-server"} else name)
    result = CliRunner().invoke(main, ["fixed"])
    assert result.exit_code == 1
    assert "nats-server: apt-get install nats-server" in result.output
    assert "a JDK with javac: apt-get install default-jdk-headless" in result.output


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
