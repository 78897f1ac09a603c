"""`rq-dlq dlq …`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

import rq_dlq
from rq_dlq.cli import _show
from tests.cli.conftest import Shell
from tests.tables import each_row

Die = Callable[..., list[str]]


def test_ls_without_a_queue_lists_those_with_dead_letters(
    shell: Shell, broker: rq_dlq.Broker, dead: Die
) -> None:
    assert "no dead letters" in shell("dlq", "ls").stderr
    dead("a", "b")
    broker.queue("mails").send("fine")
    assert [(row["name"], row["dead"]) for row in shell.json("dlq", "ls")] == [("orders", 2)]


def test_ls_says_whether_there_are_none_or_none_such(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("fine")
    assert "there are no dead letters of orders" in shell("dlq", "ls", "orders").stderr
    for words in (["--where", "TRUE"], ["--reason", "poison"]):
        assert "there are no such dead letters of orders" in shell("dlq", "ls", "orders", *words).stderr


@each_row("words", [["--limit", "20"], ["--newest"], ["--where", "TRUE"], ["--group", "lapsed"]])
def test_ls_without_a_queue_takes_no_conditions(shell: Shell, words: list[str]) -> None:
    assert "need a QUEUE" in shell("dlq", "ls", *words, code=2).stderr


def test_a_group_is_one_line_or_has_its_error_below(
    shell: Shell, dead: Die, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead("a", why="no user")
    dead("b", why="out of stock:\n" + "a long story " * 20)
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 1_000)
    assert len(shell("dlq", "groups", "orders").stdout.splitlines()) == 3
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 80)
    heading, *lines = shell("dlq", "groups", "orders").stdout.splitlines()
    assert heading.split() == ["group", "count", "last", "hour", "trend", "reason", "last", "seen"]
    assert {line.split()[1] for line in lines[::2]} == {"1"}
    assert sorted(line[:40] for line in lines[1::2]) == [
        "    no user",
        "    out of stock:\\na long story a long s",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_groups_in_a_terminal_of_any_width(shell: Shell, dead: Die, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that took two lines ended the command, or put an error below half of another group."""
    for why in ("no user", "out of stock"):
        dead("a", why=why)
    groups = {row["fingerprint"] for row in shell.json("dlq", "groups", "orders")}
    assert len(groups) == 2
    for width in range(30, 121):
        monkeypatch.setattr(_show, "UNKNOWN_WIDTH", width)
        lines = shell("dlq", "groups", "orders").stdout.splitlines()
        assert all(len(line) <= width for line in lines), width
        if len(lines) == 5:  # the errors are below
            assert {line.split()[0] for line in lines[1::2]} == groups, width
            assert {line.strip() for line in lines[2::2]} == {"no user", "out of stock"}, width
        else:
            assert {line.split()[0] for line in lines[1:]} == groups, width


def test_short_errors_stay_beside_their_groups(
    shell: Shell, dead: Die, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead("a", why="no user")
    monkeypatch.setattr(_show, "UNKNOWN_WIDTH", 80)
    heading, line = shell("dlq", "groups", "orders").stdout.splitlines()
    assert heading.split()[-1] == "error"
    assert "no user" in line


@pytest.mark.parametrize("name", ["orders", "DLQ.orders"])
def test_both_names_mean_the_dead_letters(shell: Shell, dead: Die, name: str) -> None:
    ids = dead("a", "b")
    assert [row["id"] for row in shell.json("dlq", "ls", name)] == ids
    assert [row["count"] for row in shell.json("dlq", "groups", name)] == [2]
    assert shell.json("dlq", "show", name, ids[0])["body"] == "a"


def test_the_newest_first(shell: Shell, dead: Die) -> None:
    ids = dead("a", "b", "c")
    rows = shell.json("dlq", "ls", "orders", "--newest", "--limit", "2")
    assert [row["id"] for row in rows] == [ids[2], ids[1]]


def test_groups_come_largest_first(shell: Shell, dead: Die) -> None:
    dead("a", why="no such user 17")
    dead("b", "c", why="out of stock")
    groups = shell.json("dlq", "groups", "orders")
    assert [(group["count"], group["error"]) for group in groups] == [
        (2, "out of stock"),
        (1, "no such user 17"),
    ]
    assert "out of stock" in shell("dlq", "groups", "orders").stdout


def test_ls_takes_conditions(shell: Shell, dead: Die) -> None:
    (first,) = dead("a", why="no such user 17")
    dead("b", "c", why="out of stock")
    group = shell.json("dlq", "show", "orders", first)["fingerprint"]
    assert [row["id"] for row in shell.json("dlq", "ls", "orders", "--group", group)] == [first]
    assert shell.json("dlq", "ls", "orders", "--reason", "exhausted") == []
    assert len(shell.json("dlq", "ls", "orders", "--limit", "2")) == 2


def test_show_tells_the_story(shell: Shell, dead: Die) -> None:
    (message_id,) = dead({"total": 5}, why="out of stock")
    row = shell.json("dlq", "show", "orders", message_id)
    assert (row["reason"], row["error"], row["delivery_count"]) == ("poison", "out of stock", 1)
    assert [event["event"] for event in row["history"]] == ["poisoned"]
    assert "out of stock" in shell("dlq", "show", "orders", message_id).stdout
    assert "no dead letter nope" in shell("dlq", "show", "orders", "nope", code=1).stderr


def test_show_tells_of_a_group(shell: Shell, dead: Die) -> None:
    dead("a", why="no such user 17")
    ids = dead("b", "c", why="out of stock")
    group = shell.json("dlq", "groups", "orders")[0]["fingerprint"]
    row = shell.json("dlq", "show", "orders", group)
    assert (row["fingerprint"], row["count"], row["last_hour"], row["trend"]) == (group, 2, 2, "new, growing")
    assert sum(row["consumers"].values()) == 2
    text = shell("dlq", "show", "orders", group).stdout
    assert "new, growing" in text
    assert "poisoned" in text, "the newest letter with its history"
    assert ids[1] in text
    both = shell.json("dlq", "show", "orders", group[:6])  # both were poisoned with words alone
    assert sorted(row["count"] for row in both) == [1, 2]
    assert "no dead letter 123456abcdef" in shell("dlq", "show", "orders", "123456abcdef", code=1).stderr


@pytest.mark.parametrize("group", ["123456abcdef", "nonsense"])
def test_a_group_that_is_not_there(shell: Shell, dead: Die, group: str) -> None:
    dead("a")
    for words in (("ls", "orders"), ("redrive", "orders", "--yes")):
        assert f"there is no group '{group}'" in shell("dlq", *words, "--group", group, code=1).stderr


def test_redrive_by_group(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a", why="no such user 17")
    dead("b", "c", why="out of stock")
    group = shell.json("dlq", "groups", "orders")[0]["fingerprint"]
    words = ("dlq", "redrive", "orders", "--group", group)
    assert "Move 2 dead letters" in shell(*words, code=2).stderr
    assert "moved 2 messages back" in shell(*words, "--yes").stderr
    counts = broker.queue("orders").stats()
    assert (counts.ready, counts.dead) == (2, 1)


def test_redrive_by_id_asks_nobody(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    ids = dead("a", "b", "c")
    shell("dlq", "redrive", "orders", "--id", ids[0], "--id", ids[2])
    assert broker.queue("orders").stats().ready == 2
    assert (
        "1 of the ids is not a dead letter of"
        in shell("dlq", "redrive", "orders", "--id", "nope", code=1).stderr
    )


def test_redrive_all(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a", "b")
    shell("dlq", "redrive", "DLQ.orders", "--all", "--yes")
    assert broker.queue("orders").stats().ready == 2


@pytest.mark.parametrize("verb", ["redrive", "purge"])
def test_bulk_verbs_want_exactly_one_filter(shell: Shell, dead: Die, verb: str) -> None:
    dead("a")
    assert "exactly one of" in shell("dlq", verb, "orders", "--yes", code=2).stderr
    assert "exactly one of" in shell("dlq", verb, "orders", "--id", "a", "--all", code=2).stderr


def test_an_unknown_group_is_told(shell: Shell, dead: Die) -> None:
    dead("a")
    message = shell("dlq", "redrive", "orders", "--group", "nope", "--yes", code=1).stderr
    assert "there is no group 'nope'" in message


def test_purge(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    ids = dead("a", "b", "c")
    orders = broker.queue("orders")
    shell("dlq", "purge", "orders", "--older-than", "30d", "--yes")
    assert orders.stats().dead == 3
    shell("dlq", "purge", "orders", "--id", ids[0])
    assert orders.stats().dead == 2
    assert "add --yes" in shell("dlq", "purge", "orders", "--all", code=2).stderr
    (letter,) = broker.queue("DLQ.orders").claim()
    told = shell("dlq", "purge", "orders", "--id", letter.id, "--id", "never", code=1).stderr
    assert "left as they are: 1 message\n1 of the ids is not a dead letter of this queue" in told
    assert "left as they are: 1 message\n" in shell("dlq", "purge", "orders", "--all", "--yes").stderr
    letter.release()
    shell("dlq", "purge", "orders", "--all", "--yes")
    assert orders.stats().dead == 0
    shell("dlq", "purge", "orders", "--older-than", "soon", "--yes", code=2)


def test_what_expired_is_reached_by_its_name(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a")
    orders = broker.queue("orders")
    orders.send("b", ttl="1ms")
    while not orders.stats().expired:
        orders.maintain()
    assert [row["body"] for row in shell.json("dlq", "ls", "EXP.orders")] == ["b"]


def test_conditions_choose_dead_letters(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead("a", why="no such user 17")
    dead("b", "c", why="out of stock")
    stock = ("--where", "message LIKE '%stock%'")
    assert [row["body"] for row in shell.json("dlq", "ls", "orders", *stock)] == ["b", "c"]
    assert "Move 2 dead letters" in shell("dlq", "redrive", "orders", *stock, code=2).stderr
    assert "moved 2 messages back" in shell("dlq", "redrive", "orders", *stock, "--yes").stderr
    user = ("--where", "message LIKE '%user%'")
    assert (
        "Remove 1 dead letter of orders permanently?" in shell("dlq", "purge", "orders", *user, code=2).stderr
    )
    assert "removed 1 dead letter\n" in shell("dlq", "purge", "orders", *user, "--yes").stderr
    counts = broker.queue("orders").stats()
    assert (counts.ready, counts.dead) == (2, 0)


@pytest.mark.parametrize("verb", ["ls", "redrive", "purge"])
@pytest.mark.parametrize("condition", ["error LIKE", ""])
def test_a_condition_that_cannot_be_read_is_code_2(
    shell: Shell, broker: rq_dlq.Broker, dead: Die, verb: str, condition: str
) -> None:
    dead("a")
    yes = () if verb == "ls" else ("--yes",)
    shell("dlq", verb, "orders", "--where", condition, *yes, code=2)
    assert broker.queue("orders").stats().dead == 1


def test_a_body_that_does_not_decode_in_a_page(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    """It is shown as it is, and hides none of the others."""
    (first, bad, last) = dead("a", "b", "c")
    keys = broker.queue("orders")._core.keys
    with redis.Redis(unix_socket_path=shell.url.removeprefix("unix://")) as client:
        record = client.hget(keys["messages"], bad)
        assert isinstance(record, bytes)
        client.hset(keys["messages"], bad, record[:-3] + b"{no")
    assert [row["id"] for row in shell.json("dlq", "ls", "orders")] == [first, bad, last]
    assert bad in shell("dlq", "ls", "orders").stdout
    assert "{no" in shell("dlq", "show", "orders", bad).stdout
    assert "moved 3 messages back" in shell("dlq", "redrive", "orders", "--all", "--yes").stderr


def test_a_group_is_muted_until_it_dies_again(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    dead(1, 2)
    (group,) = broker.queue("orders").dlq.groups()
    said = shell("dlq", "mute", "orders", group.fingerprint, "--by", "ana").stderr
    assert f"is muted until its next death: `rq-dlq dlq unmute orders {group.fingerprint}` ends it" in said
    assert [row["trend"] for row in shell.json("dlq", "groups", "orders")] == ["muted"]
    dead(3)
    assert [row["trend"] for row in shell.json("dlq", "groups", "orders")] == ["new, growing"]
    assert "is muted for 4h: `" in shell("dlq", "mute", "orders", group.fingerprint, "--until", "4h").stderr
    assert "is no longer muted" in shell("dlq", "unmute", "orders", group.fingerprint).stderr
    assert "was not muted" in shell("dlq", "unmute", "orders", group.fingerprint).stderr
    shell("dlq", "mute", "orders", group.fingerprint, "--until", "2000-01-01T00:00Z", code=2)
    shell("dlq", "mute", "orders", group.fingerprint, "--until", "Tomorrow", code=2)
    shell("dlq", "mute", "orders", "0" * 12, code=1)
    assert [row["did"] for row in shell.json("audit", "orders")] == ["unmuted", "muted", "muted"]


@pytest.mark.parametrize(
    "command",
    [
        ["dlq", "purge", "orders", "--all"],
        ["dlq", "purge", "orders", "--where", "body >= 0"],
        ["dlq", "redrive", "orders", "--all"],
        ["queue", "purge", "orders", "--all"],
        ["msg", "expire", "orders", "--all"],
        ["msg", "dead-letter", "orders", "--all"],
    ],
)
def test_the_question_is_about_what_it_counted(
    shell: Shell, broker: rq_dlq.Broker, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five more come while it waits for the answer."""
    orders, dies = broker.queue("orders"), command[0] == "dlq"

    def come(*bodies: int) -> None:
        orders.send_many(bodies)
        if dies:
            orders.poison(orders.claim(len(bodies)), "no")

    def answers(what: str, *, yes: bool) -> None:
        assert not yes
        assert " 12 " in what
        come(*range(100, 105))

    for module in ("dlq", "redrives", "queues", "msg"):
        monkeypatch.setattr(f"rq_dlq.cli.{module}.confirm", answers)
    come(*range(12))
    told = shell(*command).stderr
    assert f"; 5 more have {'died' if dies else 'come'} since, and stay" in told
    stats = orders.stats()
    assert (stats.dead if dies else stats.ready) == 5
