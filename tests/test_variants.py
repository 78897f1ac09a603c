"""Which variants a test runs by default, and that all others can be had."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import variants

ROOT = Path(__file__).parent.parent
NAMES = [f"tests/test_x.py::test_{n}" for n in range(1_600)]


def test_a_test_runs_on_a_real_server_in_one_colour_and_some_on_fakeredis_in_the_other() -> None:
    met = Counter[str]()
    for name in NAMES:
        real, *fake = variants.chosen(name)
        assert real["backend"] == "real"
        assert [variant["backend"] for variant in fake] in ([], ["fake"])
        assert real["broker"] not in [variant["broker"] for variant in fake]
        met.update(f"{variant['backend']} {variant['broker']}" for variant in (real, *fake))
    for server, tests in (("real", 1_600), ("fake", 100)):
        asked, made = met[f"{server} async"], met[f"{server} sync"]
        assert tests * 0.8 < asked + made < tests * 1.25
        assert 0.15 < min(asked, made) / (asked + made) < 0.35


def test_a_test_may_need_more() -> None:
    for name in NAMES:
        usual = variants.chosen(name)
        both, fake = variants.chosen(name, in_both=True), variants.chosen(name, on_fake=True)
        assert {variant["broker"] for variant in both if variant["backend"] == "real"} == {"sync", "async"}
        assert [variant["backend"] for variant in fake] == ["real", "fake"]
        assert all(variant in both and variant in fake for variant in usual)


def collected(*arguments: str) -> list[str]:
    """What pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


EXPLAIN, CONSUME, VERBS = (
    "tests/behaviour/looking/test_explain.py",
    "tests/behaviour/claiming/test_consume.py",
    "tests/test_verbs.py",
)


@pytest.fixture(scope="module")
def default() -> list[str]:
    """The default cases of three files."""
    return collected(EXPLAIN, CONSUME, VERBS)


def test_default_and_other_variants_are_all_and_a_variant_that_is_named_runs(default: list[str]) -> None:
    default = [name for name in default if name.startswith(EXPLAIN)]
    every = collected(EXPLAIN, "-m", "other_variant or not other_variant")
    other = [name for name in every if name not in default]
    tests = [{name.partition("[")[0] for name in names} for names in (default, other)]
    assert tests[0] == tests[1]
    assert len(every) == len({*default, *other}) == 4 * len(tests[0])
    named = [default[0], other[0], other[-1]]
    assert collected(*named) == named


def test_a_file_has_what_it_asks_for(default: list[str]) -> None:
    loop = f"{CONSUME}::test_a_break_makes_the_ack_and_releases_the_rest"
    assert {f"{loop}[sync-real]", f"{loop}[async-real]"} <= {*default}
    verbs = [name for name in default if name.startswith(VERBS) and "fake" in name]
    on_fakes = {name.partition("[")[0] for name in verbs}
    assert any(variants.chosen(name)[1:] == [] for name in on_fakes), "else it would show nothing"
