"""The proofs (docs/proofs.md) keep step with the code: what they name is there, and they try every verb."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import fakeredis
import pytest
import redis
from lupa import lua51  # type: ignore[import-untyped]

import rq_dlq
from tests import servers, variants
from tests.checkout import ROOT
from tests.colours import Awaited
from tests.conftest import MOVED_CLOCK, Clock
from tests.proofs import registry
from tests.proofs.live_brokers import results
from tests.proofs.live_brokers.brokers import BROKERS, Broker
from tests.proofs.live_brokers.facts import GRAVITY
from tests.proofs.mutants.explained import outdated
from tests.proofs.mutants.mutate import files, mutants
from tests.proofs.mutants.results import killers
from tests.proofs.reliability import verbs
from tests.proofs.reliability.rights import World
from tests.proofs.reliability.rows import all_rows, damaged, failovers, server_errors
from tests.proofs.sabotage.bugs import LANGUAGES, planted
from tests.servers import Server
from tests.verbs import VERBS, check_all_tried, life, names, ran_on

# The registry


def test_every_folder_is_a_proof_with_a_command() -> None:
    found = {file.parent.name for file in (ROOT / "tests" / "proofs").glob("*/__main__.py")}
    assert found == registry.PROOFS.keys()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"python3 -m tests.proofs {name}\n" in makefile for name in (*found, "all"))


def test_the_page_has_what_the_command_says() -> None:
    page = registry.PAGE.read_text("utf-8")
    assert registry.with_table(page) == page, "run: python -m tests.proofs --write"


# Sabotage


def test_every_row_has_its_bugs_or_says_why_not() -> None:
    assert list(planted()) == [row.name for row in all_rows().values() if not row.clustered]
    for row, found in planted().items():
        told = [{bug.language for bug in found.bugs}, set(found.without), set(found.open)]
        assert sorted(language for some in told for language in some) == sorted(LANGUAGES), row
        assert all(found.without.values()), f"{row}: say why"
        assert len({bug.name for bug in found.bugs}) == len(found.bugs), row


def test_every_bug_can_be_planted(tmp_path: Path) -> None:
    """Each piece is there once, and what comes of its file is Lua or Python."""
    lua = lua51.LuaRuntime()
    for bug in (bug for found in planted().values() for bug in found.bugs):
        for file in {change.file for change in bug.changes}:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_bytes((ROOT / file).read_bytes())
        bug.plant(tmp_path)
        for change in bug.changes:
            text = (tmp_path / change.file).read_text(encoding="utf-8")
            assert text != (ROOT / change.file).read_text(encoding="utf-8"), bug
            if change.file.endswith(".lua"):
                lua.compile(text)
            else:
                ast.parse(text)


# Mutants


def test_no_explanation_outlives_its_mutant() -> None:
    assert outdated(mutant for file in files() for mutant in mutants(file)) == []


def test_what_killed_a_mutant_is_there() -> None:
    tests = {test.partition("[")[0].partition("::")[::2] for test in killers().values()}
    texts = {file: (ROOT / file).read_text("utf-8") for file, _ in tests}
    assert [(file, name) for file, name in tests if f"def {name}(" not in texts[file]] == []


def test_what_killed_a_mutant_runs_by_default() -> None:
    """In the colour that is drawn for it, but for files that have both."""
    for case in set(killers().values()):
        test, _, params = case.partition("[")
        colour = re.search(r"\b(sync|async)-real\b", params)
        if colour and "both_colours(" not in (ROOT / test.partition("::")[0]).read_text("utf-8"):
            assert colour[1] == variants.chosen(test)[0]["broker"], case


# Live brokers


@pytest.mark.parametrize("broker", BROKERS, ids=lambda broker: broker.key)
def test_the_results_have_every_scenario_and_its_reasons(broker: Broker) -> None:
    rows = {row["scenario"]: row for row in results.read()[broker.key]["rows"]}
    assert list(rows) == list(broker.scenarios)
    least = {"classic": 30, "artemis": 45, "example": 5, "nats-streaming": 24, "jetstream": 10}
    assert len(rows) >= least[broker.key]
    for scenario in broker.scenarios.values():
        row, reasons = rows[scenario.name], {*scenario.reasons.values()}
        assert row["about"] == scenario.told
        assert all(reason.text in row["why"] for reason in reasons), scenario.name
        gravest = max((reason.verdict for reason in reasons), key=GRAVITY.index, default="same")
        assert row["verdict"] == gravest, scenario.name


def test_the_page_of_live_brokers_is_made_of_the_results() -> None:
    text = results.PAGE.read_text("utf-8")
    assert results.with_results(text, results.read().values()) == text


# Reliability: the rows that try verb by verb leave none out without a reason.


def test_a_life_goes_through_every_verb() -> None:
    """T6, T14."""
    with rq_dlq.Broker(pool=fakeredis.FakeRedis().connection_pool) as broker:
        one = life.Life(Awaited(broker), "one")
        life.drive(one.live())
    assert not one.wrong
    check_all_tried(VERBS, +one.calls, life.ELSEWHERE)


def test_a_zombie_settles_in_every_way() -> None:
    """T12."""
    check_all_tried(names(VERBS, "settle"), failovers.VERBS, {})


def test_every_kind_of_verb_meets_the_errors_of_servers() -> None:
    """T19."""
    kinds = {VERBS[name].kind for name in server_errors.VERBS}
    without = {name: reason for kind, reason in server_errors.WITHOUT.items() for name in names(VERBS, kind)}
    check_all_tried(VERBS, names(VERBS, *kinds), without)


@pytest.mark.redis
def test_each_role_does_all_that_it_may(tmp_path: Path) -> None:
    """T20."""
    with Server(tmp_path) as server:
        world = World(server)
        for role, deeds in verbs.VERBS.items():
            with world.broker("default") as broker, ran_on(world.raw) as ran:
                for deed in deeds.values():
                    deed(verbs.Hands(world, broker))
                    world.restore()
            may = {name for name, verb in VERBS.items() if role in verb.roles}
            check_all_tried(may, ran & may, {})


@pytest.mark.redis
def test_every_verb_meets_what_is_damaged() -> None:
    """T23."""
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        rq_dlq.Broker(f"unix://{path}", verbs=MOVED_CLOCK) as broker,
    ):
        shop = damaged.Shop(raw, broker, Clock(raw))
        tried: set[str] = set()
        for verb, place in damaged.TRIALS:
            shop.open(place)
            with ran_on(raw) as ran:
                damaged.VERBS[verb][1](shop)
            tried |= ran
    check_all_tried(VERBS, tried, damaged.WITHOUT)
