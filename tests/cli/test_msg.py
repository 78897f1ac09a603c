"""`rq-dlq msg …`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rq_dlq
from rq_dlq.policy import IndividualDeadLetterStrategy, SharedDeadLetterStrategy
from tests.cli.conftest import Shell
from tests.tables import each_row

Die = Callable[..., list[str]]


@pytest.fixture
def ids(broker: rq_dlq.Broker) -> list[str]:
    """Two ready, one scheduled, one leased."""
    orders = broker.queue("orders")
    orders.send("leased", headers={"tenant": "b"}, id="leased")
    orders.claim()
    orders.send("one", headers={"tenant": "a"}, id="one")
    orders.send("two", headers={"tenant": "b"}, id="two")
    orders.send("later", delay="1h", id="later")
    return ["one", "two", "later"]


def bodies(broker: rq_dlq.Broker, queue: str = "orders") -> list[str]:
    return [message.body for message in broker.queue(queue).select().browse()]


def test_ls(shell: Shell, ids: list[str]) -> None:
    rows = shell.json("msg", "ls", "orders")
    assert [row["id"] for row in rows] == ids
    assert [row["place"] for row in rows] == ["ready", "ready", "scheduled"]
    assert [row["id"] for row in shell.json("msg", "ls", "orders", "--limit", "1")] == ["one"]
    assert [row["id"] for row in shell.json("msg", "ls", "orders", "--place", "leased")] == ["leased"]
    found = shell.json("msg", "ls", "orders", "--where", "tenant = 'b'")
    assert [row["id"] for row in found] == ["two"]
    assert "scheduled" in shell("msg", "ls", "orders").stdout
    assert "no such messages" in shell("msg", "ls", "orders", "--where", "priority > 8").stderr


def test_a_condition_whose_quotes_a_shell_took_is_told(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("one", headers={"tenant": "a"})
    for condition in ("tenant = a", "priority = 4 and tenant<>a", "'x' = a"):
        told = shell("msg", "ls", "orders", "--where", condition).stderr
        assert "a has no quotes, so it is the header of that name; the text is 'a'" in told, condition
    for condition in (
        "tenant = 'a = b'",
        "\"a = b\" = 'a'",
        "4 = priority",
        "'a' = body.x",
        "redelivered = false",
    ):
        assert "quotes" not in shell("msg", "ls", "orders", "--where", condition).stderr, condition


@pytest.mark.usefixtures("ids")
def test_ls_may_count(shell: Shell, broker: rq_dlq.Broker) -> None:
    broker.queue("orders").send("three", headers={"tenant": "b"})
    words = ("msg", "ls", "orders", "--count-by", "tenant")
    assert shell.json(*words) == [
        {"value": "b", "count": 2},
        {"value": "a", "count": 1},
        {"value": None, "count": 1},
    ]
    lines = [line.split() for line in shell(*words, "--place", "leased").stdout.splitlines()]
    assert lines == [["value", "count"], ["b", "1"]]
    assert "(without it)" in shell(*words).stdout
    told = shell("msg", "ls", "orders", "--count-by", "priority", code=1).stderr
    assert "'priority' is a field, not a header" in told
    assert shell.json(*words, "--where", "tenant = 'x'") == []


@pytest.mark.usefixtures("ids")
def test_show_and_explain(shell: Shell, dead: Die) -> None:
    row = shell.json("msg", "show", "orders", "later")
    assert (row["body"], row["place"], row["history"]) == ("later", "scheduled", [])
    assert shell.json("msg", "show", "orders", "leased")["place"] == "leased"
    (died,) = dead("x", queue="mails")
    for name in ("mails", "DLQ.mails"):
        row = shell.json("msg", "show", name, died)
        assert (row["place"], row["reason"], row["error"]) == ("dead", "poison", "out of stock")
        assert [event["event"] for event in row["history"]] == ["poisoned"]
    assert "out of stock" in shell("msg", "show", "mails", died).stdout
    assert "there is no message nope in orders" in shell("msg", "show", "orders", "nope", code=1).stderr
    assert shell("msg", "explain", "orders", "one").stdout.startswith("one is ready: ")
    assert shell.json("msg", "explain", "orders", "nope")["place"] == "unknown"
    births = [shell.json("msg", verb, "orders", "one")["birth"] for verb in ("show", "explain")]
    assert births[0] == births[1] > 0


def test_result(shell: Shell, broker: rq_dlq.Broker) -> None:
    shell("send", "orders", "--result", typed="x\n")
    queue = broker.queue("orders")
    (delivery,) = queue.claim()
    told = shell("msg", "result", "orders", delivery.id, "--wait", "10ms", code=1).stderr
    assert "is not done yet" in told
    delivery.ack(result={"total": 3})
    assert shell("msg", "result", "orders", delivery.id).stdout == '{"total":3}\n'
    assert shell.json("msg", "result", "orders", delivery.id)["result"] == {"total": 3}


@pytest.mark.usefixtures("ids")
def test_cancel(shell: Shell, broker: rq_dlq.Broker) -> None:
    assert "cancelled 1 message\n" in shell("msg", "cancel", "orders", "one").stderr
    told = shell("msg", "cancel", "orders", "later", "later", "nope", code=1).stderr
    assert "cancelled 1 message\n" in told
    assert "nope is unknown: not changed" in told
    assert "Remove 1 message of orders permanently? There is no terminal to confirm this on" in (
        shell("msg", "cancel", "orders", "--all", code=2).stderr
    )
    assert bodies(broker) == ["two"]
    shell("msg", "cancel", "orders", "--where", "tenant = 'x'", "--yes")
    assert bodies(broker) == ["two"]
    shell("msg", "cancel", "orders", "--all", "--yes")
    assert bodies(broker) == []
    assert broker.queue("orders").stats().leased == 1
    assert "cancelled 1 message\n" in shell("msg", "cancel", "orders", "leased").stderr
    assert broker.queue("orders").stats().leased == 0


def test_dead_letters_are_cancelled_by_their_name_only(
    shell: Shell, broker: rq_dlq.Broker, dead: Die
) -> None:
    dead("a", "b")
    shell("msg", "cancel", "orders", "--all", "--yes")
    assert broker.queue("orders").stats().dead == 2
    shell("msg", "cancel", "DLQ.orders", "--all", "--yes", "--limit", "1")
    assert broker.queue("orders").stats().dead == 1
    shell("msg", "cancel", "orders", "--place", "dead", "--all", "--yes", code=2)
    assert broker.queue("orders").stats().dead == 1


@pytest.mark.usefixtures("ids")
def test_move_and_copy(shell: Shell, broker: rq_dlq.Broker, dead: Die) -> None:
    words = ("msg", "move", "orders", "--where", "tenant = 'a'", "--yes", "--to")
    assert "there is no queue 'mails'" in shell(*words, "mails", code=1).stderr
    broker.queue("mails").send("mail")
    assert "moved 1 message\n" in shell(*words, "mails").stderr
    assert bodies(broker, "mails") == ["one", "mail"]  # by when they were sent
    assert "copied 1 message\n" in shell("msg", "copy", "orders", "two", "--to", "mails").stderr
    assert sorted(bodies(broker, "mails")) == ["mail", "one", "two"]
    assert bodies(broker) == ["two", "later"]
    (died,) = dead("x", queue="returns")
    shell("msg", "move", "DLQ.returns", died, "--to", "mails")
    assert "x" in bodies(broker, "mails")
    assert "is their own queue" in shell("msg", "move", "orders", "two", "--to", "orders", code=2).stderr
    assert "Missing option '--to'" in shell("msg", "move", "orders", "two", code=2).stderr


@pytest.mark.usefixtures("ids")
def test_what_the_other_queue_knows_is_told(shell: Shell) -> None:
    shell("send", "mails", typed="x")
    shell("msg", "copy", "orders", "one", "two", "--to", "mails")
    told = shell("msg", "move", "orders", "--all", "--yes", "--to", "mails").stderr
    known = "2 are not there any more, or the other queue has their ids, or is full"
    assert f"moved 1 of 3 messages; {known}\nbeing processed, and left as they are: 1 message\n" in told
    told = shell("msg", "move", "orders", "one", "--to", "mails", code=1).stderr
    assert "1 id could not be changed: mails already has the id or is full, or no such" in told
    assert (
        "; "
        not in shell("msg", "move", "orders", "--place", "dead", "--all", "--yes", "--to", "mails").stderr
    )


@pytest.mark.parametrize(
    ("verb", "place"),
    [
        (["cancel"], "dead"),
        (["dead-letter"], "dead"),
        (["expire"], "dead"),
        (["deliver-now"], "leased"),
        (["prioritize", "--priority", "9"], "dead"),
        (["move", "--to", "mails"], "leased"),
    ],
)
def test_a_verb_takes_only_its_own_places(
    shell: Shell, broker: rq_dlq.Broker, dead: Die, verb: list[str], place: str
) -> None:
    dead("a")
    shell("send", "mails", typed="x")
    words = ("msg", verb[0], "orders", "--all", "--yes", *verb[1:])
    assert f"'{place}' is not " in shell(*words, "--place", place, code=2).stderr
    assert broker.queue("orders").stats().dead == 1


def test_verbs_for_what_waits_refuse_dead_letters(shell: Shell, dead: Die) -> None:
    dead("a")
    for verb in (["expire"], ["deliver-now"], ["prioritize", "--priority", "9"]):
        told = shell("msg", *verb, "DLQ.orders", "--all", "--yes", code=2).stderr
        assert "has only dead messages" in told
    told = shell("msg", "dead-letter", "DLQ.orders", "--all", "--yes").stderr
    assert "sent to the dead-letter queue: 0 messages\n" in told


@pytest.mark.usefixtures("ids")
def test_dead_letter(shell: Shell, broker: rq_dlq.Broker) -> None:
    told = shell("msg", "dead-letter", "orders", "one", "--reason", "a wrong price").stderr
    assert "sent to the dead-letter queue: 1 message\n" in told
    broker.policies.set("orders", dead_letter=None)
    broker.queue("orders").send("x", id="dropped")
    assert "dropped by the discarding strategy" in shell("msg", "dead-letter", "orders", "dropped").stderr
    broker.policies.remove("orders")
    shell("msg", "dead-letter", "orders", "--all", "--place", "scheduled", "--yes")
    letters = broker.queue("orders").dlq.browse()
    assert sorted(letter.body for letter in letters) == ["later", "one"]
    assert {letter.cause.message for letter in letters} == {
        "a wrong price",
        "sent to the dead-letter queue by an operator",
    }


@pytest.mark.usefixtures("ids")
def test_what_is_in_work_is_told(shell: Shell, broker: rq_dlq.Broker) -> None:
    """Where it was named that is a failure."""
    held = [message.id for message in broker.queue("orders").select(places=["leased"]).browse()]
    told = shell("msg", "prioritize", "orders", *held, "two", "--priority", "9", code=1).stderr
    assert "priority 9 given to 1 message\n" in told
    assert "being processed, and left as they are: 1 message\n" in told
    assert "could not" not in told
    told = shell("msg", "prioritize", "orders", *held, "never", "--priority", "9", code=1).stderr
    assert "left as they are: 1 message\n1 id could not be changed" in told
    assert "left as they are: 1 message\n" in shell("msg", "expire", "orders", "--all", "--yes").stderr
    assert "left as they are: 1 message\n" in shell("queue", "purge", "orders", "--all", "--yes").stderr


@pytest.mark.usefixtures("ids")
def test_expire_and_deliver_now_and_prioritize(shell: Shell, broker: rq_dlq.Broker) -> None:
    assert (
        "priority 9 given to 1 message\n"
        in shell("msg", "prioritize", "orders", "two", "--priority", "9").stderr
    )
    assert bodies(broker) == ["two", "one", "later"]
    told = shell("msg", "deliver-now", "orders", "one", code=1).stderr
    assert "1 id could not be changed" in told
    assert "Deliver 1 message of orders now?" in shell("msg", "deliver-now", "orders", "--all", code=2).stderr
    assert "made ready: 1 message\n" in shell("msg", "deliver-now", "orders", "--all", "--yes").stderr
    assert broker.queue("orders").stats().ready == 3
    shell("msg", "expire", "orders", "--where", "id = 'two'", "--yes")
    assert bodies(broker, "EXP.orders") == ["two"]
    assert "not in the range" in shell("msg", "prioritize", "orders", "a", "--priority", "10", code=2).stderr


VERBS = ["cancel", "dead-letter", "expire", "deliver-now"]


@pytest.mark.usefixtures("ids")
@each_row("verb", VERBS)
def test_verbs_want_exactly_one_choice(shell: Shell, broker: rq_dlq.Broker, verb: str) -> None:
    for words in ([], ["one", "--all"], ["one", "--where", "TRUE"], ["--all", "--where", "TRUE"]):
        told = shell("msg", verb, "orders", *words, "--yes", code=2).stderr
        assert "exactly one of ID…, --where, --all" in told
    assert bodies(broker) == ["one", "two", "later"]


@each_row(
    ("words", "code", "said"),
    [
        (["ls", "nope"], 1, "there is no queue 'nope'"),
        (["cancel", "nope", "a"], 1, "there is no queue 'nope'"),
        (["ls", "a b"], 2, "cannot name a queue"),
        (["ls", "orders", "--where", "tenant = "], 2, "the condition cannot be read (column 10"),
        (["cancel", "orders", "--where", "", "--yes"], 2, "the condition is empty"),
        (["cancel", "orders", "--where", "1 +", "--yes"], 2, "the condition cannot be read (column 4"),
        (["ls", "orders", "--place", "nowhere"], 2, "'nowhere' is not one of"),
        (["show", "orders", ""], 2, "a message's id must be text"),
    ],
)
@pytest.mark.usefixtures("ids")
def test_what_makes_no_sense_is_told(
    shell: Shell, broker: rq_dlq.Broker, words: list[str], code: int, said: str
) -> None:
    assert said in shell("msg", *words, code=code).stderr
    assert bodies(broker) == ["one", "two", "later"]


def test_a_name_for_the_dead_letters_of_several_queues(
    shell: Shell, broker: rq_dlq.Broker, dead: Die
) -> None:
    broker.policies.set("orders.#", dead_letter=SharedDeadLetterStrategy("lost"))
    broker.policies.set("mails", dead_letter=IndividualDeadLetterStrategy(prefix="Lost."))
    (first,) = dead("a", queue="orders.eu")
    (second,) = dead("b", queue="orders.us", why="no such user")
    dead("c", queue="mails")
    assert [row["id"] for row in shell.json("dlq", "ls", "lost")] == [first, second]
    assert [row["body"] for row in shell.json("dlq", "ls", "Lost.mails")] == ["c"]
    groups = shell.json("dlq", "groups", "lost")
    assert sorted((group["count"], group["error"]) for group in groups) == [
        (1, "no such user"),
        (1, "out of stock"),
    ]
    assert shell.json("dlq", "show", "lost", second)["queue"] == "orders.us"
    assert shell.json("queue", "show", "lost")["dead"] == 2
    assert [row["body"] for row in shell.json("peek", "lost")] == ["a", "b"]
    assert [row["place"] for row in shell.json("msg", "ls", "lost")] == ["dead", "dead"]
    shell("dlq", "redrive", "lost", "--where", "original_queue = 'orders.us'", "--yes")
    assert broker.queue("orders.us").stats().ready == 1
    shell("dlq", "redrive", "lost", "--id", first)
    assert broker.queue("orders.eu").stats().ready == 1
    shell("dlq", "purge", "Lost.mails", "--all", "--yes")
    assert broker.queue("mails").stats().dead == 0
    for verb in ("pause", "resume", "reset"):
        assert "it has only the dead letters of other queues" in shell("queue", verb, "lost", code=2).stderr
    assert "dlq purge lost" in shell("queue", "purge", "lost", "--yes", code=1).stderr


def test_nothing_that_others_wrote_steers_the_terminal(shell: Shell, broker: rq_dlq.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("\x1b]0;mine\x07 \u202egnp", id="m")
    orders.poison(orders.claim(), "\x1b[31mred \x9b0m")
    for words in ("dlq show orders m", "dlq groups orders", "msg explain orders m"):
        told = shell(*words.split()).output
        assert not set("\x1b\x07\x9b\u202e") & set(told)
        assert r"\x1b[31mred \x9b0m" in told
    assert not set("\x1b\x07\x9b\u202e") & set(shell("dlq", "show", "orders", "m", "-o", "json").stdout)
    assert shell.json("dlq", "show", "orders", "m")["body"] == "\x1b]0;mine\x07 \u202egnp"
