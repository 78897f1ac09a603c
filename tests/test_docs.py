"""What the documents say is there, is there."""

from __future__ import annotations

import ast
import re
from datetime import date
from itertools import takewhile
from pathlib import Path

import yaml

from rq_dlq.values.version import __version__
from tests.behaviour.cases import NOT_RUN
from tests.cases import FOLDER, load
from tests.changes import code_in
from tests.house import is_generated
from tests.tables import each_row

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "lua" / "README.md",
]
CASE = re.compile(r"\b(?:ART-B|CLS-B|CLS-X|STN-B|STT-|JSB-)\d+\b")
LOCAL = re.compile(r"`((?:tests|examples|docs|lua|rq_dlq)/[\w./-]*\w)(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)\)")
CHAPTER = re.compile(r"\]\(#([^)]+)\)")


def known_cases() -> set[str]:
    ids = {row["id"] for row in yaml.safe_load((FOLDER / "behaviour.yaml").read_text(encoding="utf-8"))}
    return ids | {row["id"] for group in ("stan_timeline", "classic_both") for row in load(group)}


@each_row("document", DOCUMENTS)
def test_every_file_and_test_that_is_named_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for path, test in LOCAL.findall(text):
        target = ROOT / path
        found = target if target.exists() else target.with_suffix(".lua")
        assert found.exists(), path
        if test:
            assert f"def {test}(" in target.read_text(encoding="utf-8"), test
    for link in LINK.findall(text):
        assert (document.parent / link).exists(), link
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    chapters = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(CHAPTER.findall(text)) <= chapters


REASONS = re.compile(r"^\| (.+?) \| .+ \| \[.+?\]\((.+?)\) \|$", re.MULTILINE)


def test_each_room_has_a_row_in_design_that_leads_to_its_reasons() -> None:
    design = ROOT / "docs" / "design.md"
    rows = REASONS.findall(design.read_text(encoding="utf-8"))
    named = [room for names, _ in rows for room in re.findall(r"`([\w/]+)`", names)]
    package = ROOT / "rq_dlq"  # a folder without an __init__ is what a checkout of before has left
    rooms = {path.parent.name for path in package.glob("*/__init__.py")} | {"_keys"}
    subjects = {f"core/{path.parent.name}" for path in package.glob("core/*/__init__.py")} | {"core/opening"}
    assert sorted(named) == sorted((rooms | subjects | {"lua", "tests"}) - {"core"})
    for names, link in rows:
        path = design.parent / link
        text = path.read_text(encoding="utf-8") if path.suffix == ".md" else head_of(path)
        assert "\n\n" in text, f"{names}: {link} says what it is, and not why it is like that"


WRITTEN = sorted(path for path, text in code_in(ROOT).items() if not is_generated(text))
SHORT = re.compile(r"`((?:[a-z_]+/)+[a-z_]+(?:\.py)?)`")  # a file or folder of the package: `core/steps`


def head_of(path: Path) -> str:
    """The docstring of a module in Python, the comment at the head of one in Lua."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    return "\n".join(takewhile(lambda line: line.startswith("--"), text.splitlines()))


@each_row("path", WRITTEN)
def test_every_file_that_a_docstring_names_is_there(path: str) -> None:
    text = head_of(ROOT / path)
    for named in [*(named for named, _ in LOCAL.findall(text)), *SHORT.findall(text)]:
        places = (ROOT / named, ROOT / "rq_dlq" / named, (ROOT / path).parent / named)
        assert any(
            place.with_suffix(end).exists() for place in places for end in (place.suffix, ".py", ".lua")
        ), named


@each_row("path", WRITTEN)
def test_a_docstring_of_a_module_fits_a_screen(path: str) -> None:
    assert len(head_of(ROOT / path).splitlines()) <= 60, "split it by module"


def test_the_map_of_the_house_has_two_pages() -> None:
    assert len((ROOT / "docs" / "design.md").read_text(encoding="utf-8").splitlines()) <= 160


def test_migrating_names_cases_that_run() -> None:
    text = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
    named = set(CASE.findall(text))
    assert len(named) > 50
    assert named <= known_cases() - NOT_RUN.keys()


def test_every_row_of_migrating_names_what_shows_it() -> None:
    text = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[2:5]:
        rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
        assert rows
        for row in rows:
            shown_by = row.rstrip("|").rpartition("|")[2]
            assert CASE.search(shown_by) or LOCAL.search(shown_by), row


def test_the_newest_release_in_the_changelog_is_the_version() -> None:
    """Or what comes is not released: then the version is above those that are."""
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    unreleased = [name for name, _ in headings if name == "Unreleased"]
    released = [name for name, day in headings if day and date.fromisoformat(day) > date(2026, 1, 1)]
    assert [name for name, _ in headings] == unreleased + released
    assert (__version__ not in released) if unreleased else (__version__ == released[0])


WORDS = """
countdown, eta, retry_backoff, acks_late, visibility timeout, result backend, chord, group, chain, beat,
rate_limit, priority, prefetch, time_limit, revoke, signals, flower,
job dependencies, unique jobs, cron, failure_ttl, depends_on, job.meta,
max_age, throws, middleware, pipeline, barrier,
flow producer, sandboxed processors, deduplication, stalled, lifo, repeat,
fifo, message group id, dead-letter queue, long polling, receipt handle, maxReceiveCount,
dead letter exchange
"""


def test_words_of_other_queues_are_found() -> None:
    """What users of Celery, RQ, dramatiq, BullMQ, SQS and RabbitMQ search for."""
    text = (ROOT / "docs" / "how-do-i.md").read_text(encoding="utf-8").lower()
    words = [word.strip().lower() for word in WORDS.split(",")]
    assert not [word for word in words if word not in text]
