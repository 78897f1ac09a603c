"""The tests that may kill a mutant, collected once in this process."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import pytest

# Not the tests that read the text of the scripts: they would see any change, whatever it does.
WHOLE = (
    "tests/model", "tests/behaviour", "tests/format", "tests/scripts/test_functions.py",
    "tests/policy/test_lua_delay.py", "tests/test_bad_input.py",
)  # fmt: skip
CORE = ("tests/model/test_model.py", "tests/behaviour/settling/test_settle.py", "tests/model/test_stops.py")
"""What suffices for a write that is left out."""
EXAMPLES, STEPS = 25, 40
PHASES = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
PLANTS = "test_a_fault_is_found"  # puts faults of its own into the Lua, as it stands on disk


class _Works:
    """A plugin that has something else done with the tests than to run them."""

    def __init__(self, work: Callable[[list[pytest.Item]], None]) -> None:
        self.work, self.failed = work, ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = str(report.longrepr)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.failed:
            raise pytest.UsageError(self.failed)
        _small_model()
        _all_stops()
        self.work([item for item in session.items if on_a_server(item)])
        return True


def on_a_server(item: pytest.Item) -> bool:
    """A real one, in the colour that the test runs in by default."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return PLANTS not in item.nodeid and not any(
        isinstance(value, str) and value == "fake" for value in params.values()
    )


def with_tests(work: Callable[[list[pytest.Item]], None], paths: Sequence[str]) -> int:
    """Collect the tests and call `work` with them; pytest's exit code."""
    hypothesis.settings.register_profile(
        "mutants", derandomize=True, database=None, phases=PHASES, print_blob=False
    )
    hypothesis.settings.load_profile("mutants")
    with tempfile.TemporaryDirectory(prefix="rq-dlq-mutants-", ignore_cleanup_errors=True) as scratch:
        options = [
            "-m",
            "not slow and not other_variant",
            "--basetemp",
            f"{scratch}/pytest",
            "-p",
            "no:terminal",
            "-p",
            "no:cacheprovider",
            "-s",
        ]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--timeout=60"]
        return pytest.main([*options, *paths], plugins=[_Works(work)])


def _all_stops() -> None:
    """At each point, so that the same tests kill a mutant in each run."""
    module: Any = sys.modules.get("tests.model.test_stops")
    if module is not None:
        module.EVERY = 1


def _small_model() -> None:
    """Fewer examples of the model: what it sees, it nearly always sees in the first."""
    module: Any = sys.modules.get("tests.model.test_model")
    if module is None:  # not among these tests
        return
    check = module.check

    def fewer(client: Any, examples: int, steps: int, *rest: Any) -> None:
        check(client, min(examples, EXAMPLES), min(steps, STEPS), *rest)

    module.check = fewer
