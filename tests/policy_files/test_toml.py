"""Our own policy files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rq_dlq.policy import Entry
from rq_dlq.policy_files import read_toml
from tests.tables import each_row

DATA = Path(__file__).parents[2] / "examples"


def test_a_table_a_pattern() -> None:
    reading = read_toml((DATA / "policies.toml").read_text())
    assert reading.problems == []
    assert reading.entries == {
        "orders.#": Entry.of(
            redelivery={
                "initial_delay": "5s",
                "multiplier": 3,
                "max_delay": None,
                "max_redeliveries": 4,
            },
            dead_letter={"strategy": "shared", "name": "orders.lost", "expiration": "30d"},
        ),
        "orders.eu": Entry.of(redelivery={"max_redeliveries": None}, max_in_flight=10, pinned=True),
        "quotes": Entry.of(
            redelivery={"delays": ["1s", "10s"]}, expiry={"expiry_delay": "10m", "retention": "1d"}
        ),
    }
    assert reading.lines == {"orders.#": 2, "orders.eu": 13, "quotes": 18}


def test_keys_may_be_written_in_every_way() -> None:
    reading = read_toml(
        '\'a.>\'.redelivery.initial_delay = """5s"""\n'
        '"b\\u002ex" = { max_in_flight = 3 }\n'
        "[ c . redelivery ] # c\n"
        "multiplier = 2\n"
    )
    assert sorted(reading.entries) == ["a.#", "b.x", "c"]


WRONG: list[tuple[str, list[tuple[int, str, str]]]] = [
    ("", [(0, "", "there is no table")]),
    ("a = \n", [(1, "", "not TOML: Invalid value")]),
    ("\n[a.redelivery]\nx = 1\nx = 2\n", [(4, "", "not TOML: Cannot overwrite")]),
    ('[a.redelivery]\ny = "', [(2, "", "not TOML")]),
    ("x = 3\n", [(1, "x", "not a table")]),
    ("[a]\n", [(1, "a", "the entry sets nothing")]),
    ("[a]\npinned = true\n", [(2, "pinned", "the entry sets nothing")]),
    ("[a]\nredelivery = 5\n", [(2, "redelivery", "5 is not a table")]),
    ("[a]\nrequires = 3\n", [(2, "a.requires", "there is no such setting. The settings are ")]),
    ("[a]\n\nmax_inflight = 3\n", [(3, "a.max_inflight", "The closest is 'max_in_flight'")]),
    ("[a]\nmax_in_flight = 0\n", [(2, "max_in_flight", "Pass a whole number")]),
    ('[a]\nmax_in_flight = "many"\n', [(2, "max_in_flight", "or None for no limit")]),
    (
        '[a.redelivery]\ninitial_delay = "soon"\n',
        [(2, "redelivery.initial_delay", "'soon' is not a duration")],
    ),
    ("[a.redelivery]\nmultiplier = nan\n", [(2, "redelivery.multiplier", "Pass a number, 1 or more")]),
    ("[a.redelivery]\nmultiplier = 2024-01-01\n", [(2, "redelivery.multiplier", "Pass a number")]),
    ('[a.redelivery]\ndelays = [\n"1s",\n"x"]\n', [(2, "redelivery.delays", "delays[1]: 'x' is no")]),
    (
        '[a.redelivery]\nfatal = ["ValueError"]\n',
        [(2, "redelivery.fatal", "classes, which Redis cannot store")],
    ),
    ("[a.redelivery]\nmax_deliveries = 3\n", [(2, "redelivery.max_deliveries", "The closest is 'max_red")]),
    ("[orders.eu.redelivery]\nmultiplier = 2\n", [(1, "orders.eu", 'in quotes: ["orders.eu".redelivery]')]),
    ('["a.#.b"]\nmax_in_flight = 1\n', [(1, "a.#.b", "# and > are allowed only at the end")]),
    ('["a b"]\nmax_in_flight = 1\n', [(1, "a b", "cannot name a queue")]),
    (
        '["a.#"]\nmax_in_flight = 1\n["a.>"]\nmax_in_flight = 2\n',
        [(3, "a.>", "it is equivalent to the pattern of line 1")],
    ),
    (
        '[a.redelivery]\ninitial_delay = "5m"\nmultiplier = 2\nmax_delay = "1m"\n',
        [(4, "redelivery.max_delay (with redelivery.initial_delay, line 2)", "is longer than max_delay")],
    ),
    (
        '[a.redelivery]\ndelays = ["1s"]\nmultiplier = 2\n',
        [(3, "redelivery.multiplier (with redelivery.delays, line 2)", "give delays or those")],
    ),
    (
        '[a.dead_letter]\nname = "x"\nexpiration = "1d"\nprefix = "y"\n',
        [(4, "dead_letter.prefix (with dead_letter.name, line 2)", "mixes strategies")],
    ),
    ('[a.dead_letter]\nstrategy = "shared"\n', [(2, "dead_letter.strategy", "has no name")]),
    ('[a.dead_letter]\nprefix = ""\n', [(2, "dead_letter.prefix", "the name would be the queue's own")]),
    (
        '[a]\ndead_letter.name = "x"\nexpiry.name = "x"\n',
        [(3, "expiry.name (with dead_letter.name, line 2)", "have the same queue name")],
    ),
    (
        '[a.expiry]\nmin_expiry_delay = "2m"\nmax_expiry_delay = "1m"\n',
        [(3, "expiry.max_expiry_delay (with expiry.min_expiry_delay, line 2)", "is longer than")],
    ),
    (
        '[b.expiry]\nretention = "x"\nttl = 1\n[a.redelivery]\nmultiplier = 0\n["c.*.*"]\n',
        [
            (2, "expiry.retention", "'x' is not a duration"),
            (3, "expiry.ttl", "no field 'ttl'"),
            (5, "redelivery.multiplier", "1 or more"),
            (6, "c.*.*", "sets nothing"),
        ],
    ),
]


@each_row("text, problems", WRONG)
def test_what_is_wrong_is_named_with_its_line(text: str, problems: list[tuple[int, str, str]]) -> None:
    reading = read_toml(text)
    found = [(problem.line, problem.setting) for problem in reading.problems]
    assert found == [(line, setting) for line, setting, _ in problems]
    for problem, (_, _, message) in zip(reading.problems, problems, strict=True):
        assert message in problem.message
    assert reading.entries == {}


def test_nothing_that_toml_can_say_breaks_it() -> None:
    values: list[Any] = [
        '"x"',
        "5",
        "-1",
        "1.5",
        "true",
        "[]",
        "{}",
        "07:32:00",
        "[[1]]",
        "{a=1}",
        "inf",
        '""',
    ]
    fields = ["redelivery", "dead_letter", "expiry", "max_in_flight", "outcomes", "dedup_window", "pinned"]
    names = ["initial_delay", "delays", "strategy", "name", "only", "prefix", "expiration", "discard"]
    for value in values:
        for field in fields:
            assert read_toml(f"[a]\n{field} = {value}\n") is not None
            for name in names:
                reading = read_toml(f"[a]\n{field}.{name} = {value}\n")
                assert bool(reading.problems) != bool(reading.entries)
                assert all(problem.line in {1, 2} for problem in reading.problems)
