"""A part of the tests, drawn: what CI runs on a machine that has nothing (tests/stranger.py).

$ RQ_DLQ_TEST_PART=3f2a pytest -n auto      # the same text draws the same tests

Some of each folder, most of what talks to a server. It is a failure if that is not what ran.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "RQ_DLQ_TEST_PART"
ON_SERVER = 150
"""Tests that talk to a server, at least."""
OF_FOLDER = 10
"""Tests of a folder, at least, if it has as many."""
ONE_IN = 20
"""So many tests have at most one that is skipped."""
TAKEN = {"behaviour": 170}
"""Tests that are drawn of a folder; of twice as many their files, for some are slow."""
TAKEN_ELSE = 14
LEFT_OUT = frozenset({"spark"})
"""Folders of which nothing runs without Java."""
TEST = re.compile(r"^ *(?:async )?def test_", re.MULTILINE)
SERVER = ("talks to a server", True)


def taken(variables: MutableMapping[str, str], *, here: bool) -> str:
    """The text that draws, or ""; where the tests run, it is taken away: what they start is no part."""
    draw = variables.get(VARIABLE, "")
    if here:
        variables.pop(VARIABLE, None)
    return draw


def folder_of(file: str) -> str:
    """The folder below `tests` in which a file is, or "tests"."""
    parts = file.split("/")
    return parts[1] if len(parts) > 2 else "tests"


def place(draw: str, name: str) -> int:
    """Where something comes among others; two texts draw independently, which a CRC would not."""
    return int.from_bytes(hashlib.blake2b(f"{draw} {name}".encode(), digest_size=8).digest())


def files(sizes: Mapping[str, int], draw: str) -> set[str]:
    """The files to collect, of the numbers of tests that they have at least: collecting all takes long."""
    chosen, counts = set[str](), Counter[str]()
    for file in sorted(sizes, key=lambda file: place(draw, file)):
        folder = folder_of(file)
        if folder not in LEFT_OUT and counts[folder] < 2 * TAKEN.get(folder, TAKEN_ELSE):
            chosen.add(file)
            counts[folder] += sizes[file]
    return chosen


def drawn(found: Sequence[pytest.Item], draw: str) -> list[pytest.Item]:
    """Of the tests that were collected, those to run; of those that need more than a server, one a folder."""
    chosen, counts, needy = set[str](), Counter[str](), set[str]()
    for item in sorted(found, key=lambda item: place(draw, item.nodeid)):
        folder = folder_of(item.nodeid.split("::", 1)[0])
        wants = any(item.iter_markers("needs"))
        if counts[folder] < TAKEN.get(folder, TAKEN_ELSE) and not (wants and folder in needy):
            chosen.add(item.nodeid)
            counts[folder] += 1
            needy |= {folder} if wants else set()
    return [item for item in found if item.nodeid in chosen]


def faults(ran: Iterable[Any], skipped: Sequence[Any], all_of: Mapping[str, int]) -> list[str]:
    """What is wrong with what was run.

    Args:
        ran: the reports of tests that passed or failed.
        skipped: those of the others.
        all_of: how many tests each folder has, at least.
    """
    ran = list(ran)
    counts = Counter(folder_of(report.nodeid.split("::", 1)[0]) for report in ran)
    talked = sum(SERVER in map(tuple, report.user_properties) for report in ran)
    said = [
        f"{counts[folder]} tests of {folder}: at least {most} should have run"
        for folder, size in sorted(all_of.items())
        if folder not in LEFT_OUT and counts[folder] < (most := min(size, OF_FOLDER))
    ]
    if talked < ON_SERVER:
        said.append(f"{talked} tests that talk to a server: at least {ON_SERVER} should have run")
    if len(skipped) * ONE_IN > len(skipped) + len(ran):
        said.append(f"{len(skipped)} tests were skipped: at most one in {ONE_IN} should be")
    return said


@dataclass(frozen=True, eq=False)  # plugins are told apart by what they are
class Part:
    """The plugin.

    Args:
        draw: the text that draws.
        root: the checkout.
        sizes: of each file of tests, how many tests it has at least.
        files: those that were drawn.
    """

    draw: str
    root: Path
    sizes: Mapping[str, int]
    files: AbstractSet[str]

    @classmethod
    def of(cls, draw: str, root: Path, paths: Iterable[Path]) -> Part:
        """Of these files."""
        sizes = {
            path.relative_to(root).as_posix(): len(TEST.findall(path.read_text(encoding="utf-8")))
            for path in paths
        }
        return cls(draw, root, sizes, files(sizes, draw))

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Whether a file was not drawn."""
        name = collection_path.relative_to(self.root).as_posix()
        return True if name in self.sizes and name not in self.files else None

    @pytest.hookimpl(trylast=True)  # of those that -m leaves
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave those that were drawn."""
        chosen = drawn(items, self.draw)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
        for item in chosen:
            if item.get_closest_marker("redis"):
                item.user_properties.append(SERVER)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail if that is not a part."""
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        if hasattr(session.config, "workerinput") or session.config.option.collectonly:
            return
        said = self.said(reporter.stats)
        for line in said:
            reporter.write_line(line, red=True)
        if said:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def said(self, stats: Mapping[str, Sequence[Any]]) -> list[str]:
        """The faults of what ran."""
        all_of = Counter[str]()
        for file, size in self.sizes.items():
            all_of[folder_of(file)] += size
        ran = [*stats.get("passed", ()), *stats.get("failed", ())]
        skipped = [report for report in stats.get("skipped", ()) if isinstance(report, pytest.TestReport)]
        return faults(ran, skipped, all_of)
