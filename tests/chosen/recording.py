"""Records what each test runs, as a plugin of pytest: `pytest -p tests.chosen.recording`.

coverage.py notes the lines of the package under the name of the test that runs. What a warm process does
(tests/servers/warm.py) belongs to the test that has started it; other processes are not seen.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage, CoverageData

from tests.chosen.record import FILE, ROOT, Record
from tests.servers.warm import WarmProcess

VARIABLE = "RQ_DLQ_RECORDING"
"""The folder into which all processes of a run write."""
CURRENT = "PYTEST_CURRENT_TEST"
PACKAGE = ROOT / "rq_dlq"
QUIET = [
    "trace-changed",
    "no-data-collected",
    "module-not-measured",
    "already-imported",
    "module-not-imported",
]


class Watch:
    """What this process runs, test by test.

    Args:
        test: the one test of the process; empty: `of` names it.
    """

    def __init__(self, test: str = "") -> None:
        self._folder = Path(os.environ[VARIABLE])
        self._coverage = Coverage(
            data_file=self._folder / "lines", data_suffix=True, source=[str(PACKAGE)], context=test or None,
            config_file=False, messages=False,
        )  # fmt: skip
        self._coverage.set_option("run:disable_warnings", QUIET)
        self._coverage.start()

    def of(self, test: str) -> None:
        """From now on it is this test; empty: none."""
        self._coverage.switch_context(test)

    def end(self) -> None:
        """Write it."""
        self._coverage.stop()
        self._coverage.save()


def watch_process() -> None:
    """In a warm process: all it does belongs to the test that has started it."""
    if VARIABLE in os.environ and CURRENT in os.environ:
        atexit.register(Watch(os.environ[CURRENT].rpartition(" ")[0]).end)


class Recording:
    """The plugin: in each process that runs tests, and in the one that collects what these have found."""

    def __init__(self, config: pytest.Config) -> None:
        self._runs = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
        self._collects = not hasattr(config, "workerinput")
        self._file = Path(config.getoption("recorded_in"))
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        if self._collects:
            self._texts = texts()
            os.environ[VARIABLE] = tempfile.mkdtemp(prefix="rq-dlq-recording-")
        self._watch = Watch() if self._runs else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """What runs meanwhile is the test's."""
        if self._watch:
            self._watch.of(item.nodeid)
        try:
            return (yield)
        finally:
            if self._watch:
                self._watch.of("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How long it took; what failed may not have come to its end, and what was skipped ran nothing."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Write what was found, when all processes have."""
        if self._watch:
            self._watch.end()
        if self._collects:
            folder = Path(os.environ.pop(VARIABLE))
            passed = {test: s for test, s in self._seconds.items() if test not in self._failed}
            take_in(folder, passed, self._texts, self._file)
            shutil.rmtree(folder)


def texts() -> dict[str, str]:
    """The files of the package."""
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}


def take_in(folder: Path, seconds: dict[str, float], texts: dict[str, str], file: Path) -> None:
    """Put into the record what the processes have written, of a package with these texts."""
    record = Record.read(file) or Record()
    lines: dict[str, dict[int, list[str]]] = {}
    for part in folder.glob("lines.*"):
        data = CoverageData(str(part))
        data.read()
        for path in data.measured_files():
            rows = lines.setdefault(Path(path).relative_to(ROOT).as_posix(), {})
            for line, tests in data.contexts_by_lineno(path).items():
                rows.setdefault(line, []).extend(test for test in tests if test in seconds)
    record.add(
        {test: round(took, 2) for test, took in seconds.items()},
        {path: rows for path, rows in lines.items() if path in texts},
        texts,
    )
    record.write(file)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Another file than that of the checkout."""
    parser.addoption("--recorded-in", default=str(FILE), help="the file of the record")


def pytest_configure(config: pytest.Config) -> None:
    """Begin, and have warm processes begin."""
    config.pluginmanager.register(Recording(config))
    begin = WarmProcess.__init__

    def begun(process: WarmProcess, *given: Any, before: str = "", **options: Any) -> None:
        watched = f"from tests.chosen.recording import watch_process; watch_process()\n{before}"
        begin(process, *given, before=watched, **options)

    WarmProcess.__init__ = begun  # type: ignore[method-assign,assignment]
