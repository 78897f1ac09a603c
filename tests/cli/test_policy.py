"""`rq-dlq policy …`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from click.testing import CliRunner
from rich.console import Console

import rq_dlq
from rq_dlq.cli import _outages, main
from rq_dlq.cli._progress import progress_bar
from rq_dlq.client import policies as policies_module
from rq_dlq.errors import BrokerUnavailable
from rq_dlq.policy import Entry, RedeliveryPolicy
from tests.cli.conftest import Shell
from tests.tables import each_row

DATA = Path(__file__).parents[2] / "examples"


def entries(broker: rq_dlq.Broker) -> dict[str, Entry]:
    return dict(broker.policies.read().entries)


def explained(shell: Shell, queue: str) -> dict[str, tuple[Any, str]]:
    return {row["field"]: (row["value"], row["source"]) for row in shell.json("policy", "explain", queue)}


def test_set_with_an_option_for_each_field(shell: Shell, broker: rq_dlq.Broker) -> None:
    words = """
        --initial-delay 5s --multiplier 3 --max-delay unlimited --collision-avoidance 0.25
        --max-redeliveries 7 --process-expired --no-process-non-persistent --expiration never
        --expiry-delay 1h --min-expiry-delay none --no-expiry --retention 30d --max-in-flight 5
    """
    told = shell("policy", "set", "orders.>", *words.split(), "--prefix", "D.", "--suffix", ".x", "--pin")
    assert "set orders.#: it matches 0 queues" in told.stderr
    assert entries(broker) == {
        "orders.#": Entry.of(
            redelivery={
                "initial_delay": "5s",
                "multiplier": 3,
                "max_delay": None,
                "collision_avoidance": 0.25,
                "max_redeliveries": 7,
            },
            dead_letter={
                "prefix": "D.",
                "suffix": ".x",
                "process_expired": True,
                "process_non_persistent": False,
                "expiration": None,
            },
            expiry={"expiry_delay": "1h", "min_expiry_delay": None, "no_expiry": True, "retention": "30d"},
            max_in_flight=5,
            pinned=True,
        )
    }


@each_row(
    ("words", "entry"),
    [
        (["--delays", "1s,10s, 1m"], Entry.of(redelivery={"delays": ["1s", "10s", "1m"]})),
        (["--max-redeliveries", "-1"], Entry.of(redelivery={"max_redeliveries": None})),
        (["--max-redeliveries", "unlimited"], Entry.of(redelivery={"max_redeliveries": None})),
        (
            ["--arithmetic", "activemq", "--redelivery-delay", "2s"],
            Entry.of(redelivery={"arithmetic": "activemq", "redelivery_delay": 2}),
        ),
        (["--strategy", "shared", "--dlq-name", "lost"], Entry.of(dead_letter={"name": "lost"})),
        (
            ["--strategy", "discarding", "--only", "a.b c.*", "--report-interval", "9"],
            Entry.of(dead_letter={"strategy": "discarding", "only": "a.b c.*", "report_interval": 9}),
        ),
        (["--discard-expired"], Entry.of(expiry={"discard": True})),
        (["--no-discard-expired", "--may-expire"], Entry.of(expiry={"discard": False, "no_expiry": False})),
        (["--expiry-name", "late"], Entry.of(expiry={"name": "late"})),
        (["--expiry-prefix", "L.", "--expiry-suffix", ".l"],
         Entry.of(expiry={"prefix": "L.", "suffix": ".l"})),
        (["--retention", "forever", "--max-expiry-delay", "1d"],
         Entry.of(expiry={"retention": None, "max_expiry_delay": "1d"})),
        (["--max-in-flight", "unlimited"], Entry.of(max_in_flight=None)),
        (["--outcomes", "100000"], Entry.of(outcomes=100_000)),
        (["--outcomes", "none"], Entry.of(outcomes=None)),
        (["--dedup-window", "2m"], Entry.of(dedup_window=120)),
        (["--dedup-window", "none"], Entry.of(dedup_window=None)),
    ],
)  # fmt: skip
def test_set_says_this_and_nothing_else(
    shell: Shell, broker: rq_dlq.Broker, words: list[str], entry: Entry
) -> None:
    shell("policy", "set", "orders", "--max-in-flight", "3", "--pin")
    shell("policy", "set", "orders", *words, "--replace")
    assert entries(broker) == {"orders": entry}


def test_set_changes_only_what_is_named(shell: Shell, broker: rq_dlq.Broker) -> None:
    """A throttle of a queue left two messages of an ordered key in work."""
    shell("policy", "set", "orders", "--per-key", "order", "--breaker", "on", "--max-delay", "1h", "--pin")
    told = shell("policy", "set", "orders", "--rate", "100/s", "--initial-delay", "15m")
    assert "previous" not in told.stderr
    assert entries(broker) == {
        "orders": Entry.of(
            per_key="order",
            breaker="on",
            rate="100/s",
            redelivery={"initial_delay": "15m", "max_delay": "1h"},
            pinned=True,
        )
    }
    shell("policy", "set", "orders", "--no-pin", "--rate", "200/s")
    assert not entries(broker)["orders"].pinned


@each_row("field", ["rate", "max_in_flight", "per_key", "breaker", "results", "results_bytes"])
def test_none_turns_a_field_off(shell: Shell, field: str) -> None:
    """It would be a surprise if the limit of a wider pattern came back."""
    option = "--" + field.replace("_", "-")
    usual = {"per_key": "order", "breaker": "on", "results": "1h", "results_bytes": "1MB"}
    shell("policy", "set", "#", option, usual.get(field, "7/s" if field == "rate" else "7"))
    shell("policy", "set", "orders", option, usual.get(field, "9/s" if field == "rate" else "9"))
    shell("policy", "set", "orders", option, "none", "--outcomes", "5")
    assert explained(shell, "orders")[field] == (None, "orders")
    shell("policy", "set", "orders", "--outcomes", "5", "--replace")
    assert explained(shell, "orders")[field][1] == "#"


def test_set_says_what_the_entry_before_had_set(shell: Shell) -> None:
    told = shell("policy", "set", "orders", "--max-redeliveries", "3", "--expiration", "30d", "--pin")
    assert "before" not in told.stderr
    told = shell("policy", "set", "orders", "--max-redeliveries", "5", "--replace")
    gone = "the previous entry also set dead_letter.expiration 30d, pinned yes: to keep these fields"
    assert gone in told.stderr


def test_a_dry_run_sets_nothing(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("policy", "set", "orders.>", "--initial-delay", "5s", "--dry-run")
    assert [line.split() for line in told.stdout.splitlines()] == [
        ["pattern", "field", "value"],
        ["orders.#", "redelivery.initial_delay", "5s"],
        ["orders.#", "redelivery.delays", "none"],
    ]
    assert "nothing was changed" in told.stderr
    rows = shell.json("policy", "set", "orders.>", "--initial-delay", "5s", "--dry-run")
    assert rows[0] == {"pattern": "orders.#", "field": "redelivery.initial_delay", "value": 5000}
    assert entries(broker) == {}


@each_row(
    ("words", "said"),
    [
        ([], "pass either a PATTERN with options, or a --file"),
        (["orders"], "the entry sets nothing"),
        (["orders", "--pin"], "the entry sets nothing"),
        (["a.#.b", "--max-in-flight", "1"], "# and > are allowed only at the end"),
        (["orders", "--initial-delay", "soon"], "--initial-delay: 'soon' is not a duration"),
        (["orders", "--multiplier", "x"], "--multiplier: 'x' is not a number"),
        (
            ["orders", "--max-in-flight", "x"],
            "'x' is not a whole number and not 'unlimited'",
        ),
        (["orders", "--max-redeliveries", "-2"], "--max-redeliveries is -2"),
        (["orders", "--strategy", "lost"], "Pass one of individual, shared, discarding"),
        (["orders", "--dlq-name", "a", "--prefix", "b"], "dead_letter mixes strategies"),
        (["orders", "--initial-delay", "5m", "--max-delay", "1m"], "is longer than --max-delay"),
        (["orders", "--file", "{data}/policies.toml"], "pass either"),
        (["--pin", "--file", "{data}/policies.toml"], "pass either"),
        (["--file", "nowhere.toml"], "does not exist"),
    ],
)
def test_what_makes_no_sense_is_code_2(
    shell: Shell, broker: rq_dlq.Broker, words: list[str], said: str
) -> None:
    told = shell("policy", "set", *(word.format(data=DATA) for word in words), code=2).stderr
    assert said in told
    assert entries(broker) == {}


def test_a_name_that_is_the_queue_s_own_is_refused(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("policy", "set", "orders", "--dlq-name", "orders", code=2).stderr
    assert "'orders' cannot be its own dead-letter or expiry queue" in told
    assert entries(broker) == {}


def test_a_name_that_is_a_queue_s_shows_both(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("mails").send("a")
    broker.queue("orders").send("b")
    shell("policy", "set", "orders", "--dlq-name", "mails")
    orders = broker.queue("orders")
    orders.poison(orders.claim())
    row = shell.json("queue", "show", "mails")
    assert (row["ready"], row["dead"]) == (1, 1)
    assert "no consumer holds a message" in row["stands_still"]
    assert [row["body"] for row in shell.json("msg", "ls", "mails")] == ["a"]
    assert [row["body"] for row in shell.json("dlq", "ls", "mails")] == ["b"]
    assert sorted(row["body"] for row in shell.json("peek", "mails")) == ["a", "b"]


def test_a_file_has_many_patterns(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders.eu").send("a")
    file = str(DATA / "policies.toml")
    assert len(shell.json("policy", "set", "--file", file, "--dry-run")) > 10
    assert entries(broker) == {}
    told = shell("policy", "set", "--file", file).stderr
    assert "set orders.#: it matches 1 queue" in told
    assert sorted(entries(broker)) == ["orders.#", "orders.eu", "quotes"]
    assert broker.queue("orders.eu").settings().redelivery.max_redeliveries is None
    assert broker.queue("orders.us").settings().redelivery.max_redeliveries == 4


def test_a_file_with_mistakes_changes_nothing(shell: Shell, broker: rq_dlq.Broker, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(
        "[fine]\nmax_in_flight = 1\n\n[orders.redelivery]\ninitial_dely = 1\n"
        '[mails.redelivery]\ninitial_delay = "5m"\nmax_delay = "1m"\n'
    )
    told = shell("policy", "set", "--file", str(file), code=1)
    lines = told.stderr.splitlines()
    assert lines[0].startswith(f"{file}:5: redelivery.initial_dely: redelivery has no field 'initial_dely'")
    assert lines[1].startswith(f"{file}:8: redelivery.max_delay (with redelivery.initial_delay, line 7): ")
    assert lines[2] == f"Error: 2 problems in {file}, so nothing was changed"
    assert told.stdout == ""
    assert entries(broker) == {}
    file.write_bytes(b"[a]\nx = '\xff'")
    assert f"{file}: not UTF-8" in shell("policy", "set", "--file", str(file), code=1).stderr
    file.write_text("".join(f"[a{n}]\n" for n in range(30)))
    assert "… and 10 more" in shell("policy", "set", "--file", str(file), code=1).stderr


def test_all_entries_are_checked_against_the_queues_before_the_first_is_written(
    shell: Shell, broker: rq_dlq.Broker, tmp_path: Path
) -> None:
    broker.queue("b.lost").send("a")
    file = tmp_path / "shop.toml"
    file.write_text('[a]\nmax_in_flight = 1\n\n["b.#".dead_letter]\nprefix = "EXP.DLQ."\n')
    told = shell("policy", "set", "--file", str(file), code=1).stderr
    assert f"{file}:4: b.#: 'EXP.DLQ.b.lost': a dead-letter or expiry queue has no dead-letter queue" in told
    assert entries(broker) == {}


def test_a_server_that_goes_away_is_code_4_and_tells_how_far_it_came(
    shell: Shell, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = policies_module.Policies.put

    def failing(self: Any, pattern: str, entry: Entry, **options: Any) -> int:
        if pattern == "quotes":
            message = "gone"
            raise BrokerUnavailable(message)
        return put(self, pattern, entry, **options)

    monkeypatch.setattr(policies_module.Policies, "put", failing)
    told = shell("policy", "set", "--file", str(DATA / "policies.toml"), code=4).stderr
    assert "stopped part-way, after 2 of 3 entries: gone" in told
    assert len(entries(broker)) == 2


def test_ls_and_rm(shell: Shell, broker: rq_dlq.Broker) -> None:
    assert "there are no policies" in shell("policy", "ls").stderr
    broker.queue("orders").send("a")
    shell("policy", "set", "orders.>", "--initial-delay", "5s", "--max-redeliveries", "unlimited")
    shell("policy", "set", "a", "--max-in-flight", "2", "--pin")
    table = shell("policy", "ls").stdout
    assert "initial_delay 5s, max_redeliveries unlimited" in table
    assert "max_in_flight 2, pinned yes" in table
    rows = shell.json("policy", "ls")
    assert rows == [
        {"pattern": "a", "max_in_flight": 2, "pinned": True},
        {
            "pattern": "orders.#",
            "redelivery": {"initial_delay": 5000, "max_redeliveries": None, "delays": None},
            "pinned": False,
        },
    ]
    told = shell("policy", "rm", "other", code=1).stderr
    assert told == "Error: there is no entry for 'other': `rq-dlq policy ls` lists them\n"
    assert "The settings without it apply to 1 queue\n" in shell("policy", "rm", "orders", code=1).stderr
    assert "removed orders.#: it matched 1 queue" in shell("policy", "rm", "orders.>").stderr
    assert list(entries(broker)) == ["a"]
    assert broker.queue("orders").settings().redelivery == RedeliveryPolicy()


def test_explain_names_where_each_field_comes_from(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders.eu", redelivery=RedeliveryPolicy(multiplier=3)).send("a")
    shell("policy", "set", "orders.#", "--max-in-flight", "5", "--strategy", "discarding")
    shell("policy", "set", "*.eu", "--max-delay", "1h", "--dedup-window", "2m", "--pin")
    found = explained(shell, "orders.eu")
    assert found["redelivery.max_delay"] == (3_600_000, "pinned *.eu")
    assert found["redelivery.multiplier"] == (3.0, "declared in code")
    assert found["max_in_flight"] == (5, "orders.#")
    assert found["outcomes"] == (None, "default")
    assert found["expiry.no_expiry"] == (False, "default")
    assert (found["dead_letter.queue"][0], found["expiry.queue"][0]) == (None, "EXP.orders.eu")
    lines = [line.split() for line in shell("policy", "explain", "orders.eu").stdout.splitlines()]
    assert ["redelivery.max_delay", "1h", "pinned", "*.eu"] in lines
    assert ["dead_letter.expiration", "never", "default"] in lines
    assert ["dedup_window", "2m", "pinned", "*.eu"] in lines
    assert ["expiry.discard", "no", "default"] in lines
    assert explained(shell, "DLQ.mails")["dead_letter.queue"][0] == "DLQ.mails"


def test_undeclare(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders", redelivery=RedeliveryPolicy(max_redeliveries=7)).send("a")
    shell("policy", "set", "orders", "--max-redeliveries", "2")
    assert explained(shell, "orders")["redelivery.max_redeliveries"] == (7, "declared in code")
    assert "removed the settings declared for orders" in shell("policy", "undeclare", "orders").stderr
    assert explained(shell, "orders")["redelivery.max_redeliveries"] == (2, "orders")
    for name in ("orders", "never.used"):
        told = shell("policy", "undeclare", name, code=1).stderr
        assert f"no program declared settings for {name}" in told
    assert "cannot name a queue" in shell("policy", "undeclare", "a b", code=2).stderr


def test_explain_names_the_queue_that_takes_what_dies(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("policy", "set", "orders.eu", "--prefix", "EXP.DLQ.", "--suffix", "")
    broker.queue("orders.eu").send("a")
    assert explained(shell, "orders.eu")["dead_letter.queue"][0] == "DLQ.orders.eu"
    shell("policy", "set", "orders.us", "--prefix", "", "--suffix", ".lost")
    broker.queue("orders.us.lost").send("a")
    broker.queue("orders.us").send("a")
    assert explained(shell, "orders.us")["dead_letter.queue"][0] == "orders.us.lost"


def test_preview(shell: Shell) -> None:
    shell("policy", "set", "orders", "--initial-delay", "2s", "--max-redeliveries", "3")
    table = shell("policy", "preview", "orders").stdout
    assert table == f"{RedeliveryPolicy(initial_delay=2, max_redeliveries=3).preview()}\n"
    shown = shell.json("policy", "preview", "orders", "--multiplier", "1", "--rows", "2")
    assert [row["nominal"] for row in shown["rows"]] == [2.0, 2.0]
    assert shown["dead_after"] == {"earliest": 3.0, "nominal": 6.0, "latest": 9.0}
    delays = shell.json("policy", "preview", "--delays", "1s,5s", "--max-redeliveries", "3")
    assert [row["latest"] for row in delays["rows"]] == [1.0, 5.0, 5.0]
    assert shell("policy", "preview").stdout == f"{RedeliveryPolicy().preview()}\n"
    assert "is longer than" in shell("policy", "preview", "--initial-delay", "1h", code=2).stderr


def test_preview_of_options_needs_no_server() -> None:
    result = CliRunner().invoke(main, ["--url", "redis://127.0.0.1:1", "policy", "preview", "--delays", "1s"])
    assert result.exit_code == 0
    result = CliRunner().invoke(main, ["--url", "redis://127.0.0.1:1", "policy", "preview", "orders"])
    assert result.exit_code == 3


def test_simulate(shell: Shell) -> None:
    words = ["--messages", "50", "--outage", "1m", "--rate", "20", "--seed", "3"]
    policy = RedeliveryPolicy(multiplier=3)
    played = policy.simulate(50, "1m", 20, 3)
    told = shell("policy", "simulate", "--multiplier", "3", *words)
    assert told.stdout == f"{played}\n"
    shown = shell.json("policy", "simulate", "--multiplier", "3", *words)
    assert (shown["done"], shown["wasted"]) == (played.done, played.wasted)
    assert shown["rows"][0] == {"start": 0.0, "failed": played.rows[0].failed, "done": played.rows[0].done}
    assert "not a duration" in shell("policy", "simulate", "--outage", "x", code=2).stderr
    assert "rate" in shell("policy", "simulate", "--rate", "0", code=2).stderr


def test_an_outage_is_played_with_the_breaker_and_without(
    shell: Shell, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of forty messages need what is down for a minute; each may fail twice."""
    monkeypatch.setattr(_outages, "ensure", lambda: SimpleNamespace(url=shell.url))
    broker.policies.set("orders", breaker="distinct=5", redelivery={"max_redeliveries": 1})
    words = [
        *("policy", "simulate", "orders", "--messages", "40"),
        *("--outage", "1m", "--share", "0.5", "--poisons", "2"),
    ]
    with redis.Redis(unix_socket_path=shell.url.removeprefix("unix://")) as raw:
        before = set(raw.keys())
        played = shell.json(*words)
        assert set(raw.keys()) <= before
    with_it, without = played["with"], played["without"]
    assert (without["healthy_dead"], without["wasted"], without["waiting"]) == (20, 40, 0)
    assert with_it["healthy_dead"] == 0
    assert 5 <= with_it["wasted"] < 40
    assert with_it["waiting"] == 20
    assert 0 < with_it["drained"] < 60
    assert {one["poisons_dead"] for one in (with_it, without)} == {2}
    assert shell.json(*words) == played
    lines = shell(*words).stdout.splitlines()
    assert lines[0].startswith(
        "40 messages are sent in 1m, in which the dependency of 50% of them is down; 2 more"
    )
    assert lines[3].split() == ["healthy", "messages", "that", "died", "0", "20"]


@each_row(
    "words, complaint",
    [
        ("--poisons 3", "--poisons is for an outage with a breaker"),
        ("--breaker on --rate 3", "--rate is for an outage without a breaker"),
        (
            "--breaker on --messages 50000",
            "8 workers cannot process 50,000 messages in 300 s. Pass 34 or more",
        ),
        ("--breaker on --messages 999999 --workers 999", "more than 100,000 messages"),
        ("--breaker on --outage 1s", "an outage of 1 s is too short"),
        ("--breaker on --share 1.5", "1.5 is not in the range"),
        ("--breaker maybe", "breaker is 'maybe'"),
    ],
)
def test_an_outage_that_cannot_be_played(words: str, complaint: str, shell: Shell) -> None:
    assert complaint in shell("policy", "simulate", *words.split(), code=2).stderr


def test_what_is_stored_but_cannot_be_read_is_told_and_can_be_removed(
    shell: Shell, broker: rq_dlq.Broker, redis_socket: str
) -> None:
    broker.policies.set("a", max_in_flight=1)
    with redis.Redis(unix_socket_path=redis_socket) as client:
        client.hset(f"{shell.namespace}:policies", "b", "{")
    assert "the entry of 'b' cannot be read" in shell("policy", "ls").stderr
    shell("policy", "rm", "b")
    assert "cannot be read" not in shell("policy", "ls").stderr


def test_jsonl(shell: Shell) -> None:
    shell("policy", "set", "a", "--max-in-flight", "1")
    lines = shell("policy", "ls", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["pattern"] for line in lines] == ["a"]


@contextmanager
def interrupted(*_: Any) -> Iterator[Callable[[int, int], None]]:
    """In place of the progress bar: Ctrl-C after the first queues."""

    def stop(done: int, total: int) -> None:
        if done < total:
            raise KeyboardInterrupt

    yield stop


def test_who_stops_it_is_told_how_far_it_came(
    shell: Shell, broker: rq_dlq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same command again does the rest."""
    for name in ("a.b", "a.c", "a.d"):
        broker.queue(name).open()

    def limits() -> list[bytes | None]:
        with redis.Redis(unix_socket_path=shell.url.removeprefix("unix://")) as raw:
            keys = [f"{shell.namespace}:{{a.{name}}}:settings" for name in "bcd"]
            return [raw.hget(key, "max_in_flight") for key in keys]

    with monkeypatch.context() as patch:
        patch.setattr("rq_dlq.cli._entries.progress_bar", interrupted)
        told = shell("policy", "set", "a.#", "--max-in-flight", "1", code=4).stderr
    assert (
        "stopped part-way, after 0 of 1 entries: 1 of 3 queues have the change: it is safe to repeat" in told
    )
    assert limits() == [b"1", None, None]
    assert "it matches 3 queues" in shell("policy", "set", "a.#", "--max-in-flight", "1").stderr
    with monkeypatch.context() as patch:
        patch.setattr(import_module("rq_dlq.cli.policy"), "progress_bar", interrupted)
        told = shell("policy", "rm", "a.#", code=4).stderr
    assert "stopped; 1 of 3 queues have the change: it is safe to repeat the call" in told
    told = shell("policy", "rm", "a.#", code=1).stderr
    assert "there is no entry for 'a.#'" in told
    assert "The settings without it apply to 3 queues" in told
    assert limits() == [None] * 3


def test_a_bar_only_on_a_terminal() -> None:
    for terminal in (True, False):
        screen = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with progress_bar(screen, "setting a.#") as progress:
            progress(40, 60)
        drawn = screen.file.getvalue()  # type: ignore[attr-defined]
        assert ("setting a.#" in drawn and "40/60" in drawn) == terminal
