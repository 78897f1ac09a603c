"""The pages of errors: each has one, its note and the command line name it, `rq-dlq error` prints it."""

from __future__ import annotations

import json
import pickle
import re
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner

from rq_dlq import errors
from rq_dlq.cli import main
from rq_dlq.cli.error import PAGES
from tests.site import reference
from tests.tables import each_row

PARTS = re.compile(r"\n\nCause: \S.+?\.\n\nWhat to do: \S.+?\.(?:\n\n|$)", re.DOTALL)


@each_row("name", PAGES)
def test_each_error_has_a_page_with_its_cause_and_what_to_do(name: str) -> None:
    kind = getattr(errors, name)
    assert kind.__doc__ != kind.__base__.__doc__
    assert PARTS.search(PAGES[name])
    assert kind("why").page == f"rq-dlq error {name}"
    assert CliRunner().invoke(main, ["error", name]).stdout == f"{name}\n\n{PAGES[name]}\n"


def test_the_site_has_the_same_pages() -> None:
    pytest.importorskip("prometheus_client")
    text = reference.texts()["reference/errors.md"]
    assert set(PAGES) <= set(re.findall(r"^::: rq_dlq\.(\w+)$", text, re.MULTILINE))


def test_a_traceback_ends_with_the_page_and_the_text_is_without_it() -> None:
    error = errors.Unconfirmed("order-41: in the queue", ["order-41"])
    error.add_note("1,000 messages before it were sent")
    for one in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own
        assert str(one) == "order-41: in the queue"
        assert "".join(traceback.format_exception_only(one)).splitlines()[1:] == [
            "1,000 messages before it were sent",
            "more: rq-dlq error Unconfirmed",
        ]


def test_an_error_of_the_users_own_has_the_page_of_ours() -> None:
    class SoldOutError(errors.InvalidInput):
        def __init__(self) -> None:  # without ours
            self.add_note("a note")

    assert SoldOutError().page == "rq-dlq error InvalidInput"
    assert SoldOutError().__notes__ == ["a note"]


def test_the_command_line_names_the_page_once(tmp_path: Path) -> None:
    words = ["--url", f"unix://{tmp_path}/none.sock", "queue", "ls"]
    first, *rest = CliRunner().invoke(main, words).stderr.splitlines()
    assert "more:" not in first
    assert rest == ["more: rq-dlq error BrokerUnavailable"]
    traced = CliRunner().invoke(main, ["-vv", *words]).stderr
    assert traced.count("more: rq-dlq error BrokerUnavailable") == 1


def test_errors_are_listed_and_found_by_their_full_names() -> None:
    listed = json.loads(CliRunner().invoke(main, ["error", "-o", "json"]).stdout)
    assert [row["error"] for row in listed] == [*PAGES]
    assert all(row["meaning"].endswith(".") for row in listed)
    full = CliRunner().invoke(main, ["error", "rq_dlq.errors.LeaseLost", "-o", "json"]).stdout
    assert json.loads(full) == {"error": "LeaseLost", "page": PAGES["LeaseLost"]}
    unknown = CliRunner().invoke(main, ["error", "KeyError"])
    assert (unknown.exit_code, unknown.stderr) == (
        2,
        "Error: there is no error 'KeyError': `rq-dlq error` lists all\n",
    )
