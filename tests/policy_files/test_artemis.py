"""Artemis' broker.xml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rq_dlq.policy import PolicyMap, QueueSettings, RedeliveryPolicy
from rq_dlq.policy_files import Reading, read_broker_xml
from rq_dlq.policy_files._others import ARTEMIS
from rq_dlq.policy_files.artemis import KNOWN
from tests.tables import each_row

DATA = Path(__file__).parents[2] / "examples"


def core(*lines: str) -> Reading:
    """What is read of a <core> with these lines, the first of which is line 2."""
    head = "<configuration><core xmlns='urn:activemq:core'><address-settings>"
    tail = "</address-settings></core></configuration>"
    return read_broker_xml("\n".join([head, *lines, tail]).encode())


def block(match: str, *settings: str) -> str:
    inner = "".join(
        f"<{name}>{value}</{name}>" for name, _, value in (one.partition("=") for one in settings)
    )
    return f'<address-setting match="{match}">{inner}</address-setting>'


def settings(reading: Reading, queue: str) -> QueueSettings:
    assert reading.problems == []
    return PolicyMap(reading.entries).settings(queue)


def test_the_sample_says_what_artemis_would_do() -> None:
    reading = read_broker_xml((DATA / "broker.xml").read_bytes())
    eu = settings(reading, "orders.eu")
    assert eu.redelivery == RedeliveryPolicy.artemis(
        redelivery_delay=5000,
        redelivery_delay_multiplier=1.5,
        redelivery_collision_avoidance_factor=0.15,
        max_redelivery_delay=50000,
        max_delivery_attempts=6,
    )
    assert (eu.dead_name, eu.expired_name) == ("DLQ.orders.eu", "ExpiryQueue")
    express = settings(reading, "orders.express")
    assert express.redelivery.max_redeliveries is None
    assert express.redelivery.multiplier == 1.5
    assert express.dead_name == "DLQ.orders.express.dead"
    assert express.expiry.expiry_delay == 600
    quotes = settings(reading, "quotes.a")
    assert quotes.redelivery == RedeliveryPolicy.artemis()
    assert (quotes.dead_letter.STRATEGY, quotes.expired_name) == ("discarding", "LATE.quotes.a")
    assert (quotes.expiry.min_expiry_delay, quotes.expiry.max_expiry_delay) == (10, 3600)
    assert settings(reading, "mails").dead_name == "DLQ"


def test_each_setting_is_told_once_with_its_line() -> None:
    text = (DATA / "broker.xml").read_text().splitlines()
    reading = read_broker_xml((DATA / "broker.xml").read_bytes())
    told = [finding for finding in reading.findings if finding.value and finding.setting != "match"]
    for finding in told:
        assert f"<{finding.setting}>{finding.value}</" in text[finding.line - 1]
    assert {finding.line for finding in reading.findings} >= {
        number
        for number, line in enumerate(text, 1)
        if "</" in line and 21 < number < 52 and "g>" not in line
    }


@each_row("name", sorted(ARTEMIS))
def test_what_is_not_taken_over_is_told_why(name: str) -> None:
    reading = core(block("a", f"{name}=1"))
    (finding,) = [one for one in reading.findings if one.place != "core"]
    assert (finding.line, finding.setting, finding.value) == (2, name, "1")
    assert finding.outcome in {"not needed", "no counterpart"}
    assert finding.note
    assert reading.entries == {}


MEANT: list[tuple[list[str], dict[str, Any]]] = [
    (["redelivery-delay=10"], {"redelivery.initial_delay": 10, "redelivery.max_delay": 100}),
    (["max-delivery-attempts=1"], {"redelivery.max_redeliveries": 0}),
    (["max-delivery-attempts=-1"], {"redelivery.max_redeliveries": None}),
    (["max-redelivery-delay=9223372036854775807"], {"redelivery.max_delay": 2**63 - 1}),
    (["redelivery-delay-multiplier=1e1"], {"redelivery.multiplier": 10}),
    (["expiry-delay=-1", "min-expiry-delay=5"], {"expiry.expiry_delay": None, "expiry.min_expiry_delay": 5}),
    (["no-expiry=TRUE"], {"expiry.no_expiry": True}),
    (["dead-letter-address=DLA"], {"dead_letter.strategy": "shared", "dead_letter.name": "DLA"}),
    (["dead-letter-address="], {"dead_letter.strategy": "discarding"}),
    (["expiry-address="], {"expiry.discard": True}),
    (["expiry-address=EA"], {"expiry.name": "EA", "expiry.discard": False}),
    (
        ["dead-letter-address=DLA", "auto-create-dead-letter-resources=true", "dead-letter-queue-suffix=.x"],
        {"dead_letter.strategy": "individual", "dead_letter.prefix": "DLQ.", "dead_letter.suffix": ".x"},
    ),
    (
        ["dead-letter-address=DLA", "dead-letter-queue-prefix=X."],
        {"dead_letter.strategy": "shared", "dead_letter.name": "DLA"},
    ),
    (
        ["expiry-address=EA", "auto-create-expiry-resources=true", "expiry-queue-prefix=X."],
        {"expiry.prefix": "X.", "expiry.name": None},
    ),
    (
        ["dead-letter-address=DLQ", "expiry-address=DLQ"],
        {"dead_letter.name": "DLQ", "dead_letter.process_expired": True},
    ),
]


@each_row("given, meant", MEANT)
def test_a_setting_becomes(given: list[str], meant: dict[str, Any]) -> None:
    sources = {one.field: one.value for one in settings(core(block("a.#", *given)), "a.b").sources}
    assert {field: sources.get(field) for field in meant} == meant


def test_places_are_merged_as_artemis_merges_them() -> None:
    reading = core(
        block("#", "auto-create-dead-letter-resources=true", "dead-letter-queue-prefix=P."),
        block("a.#", "dead-letter-address=A"),
        block("a.b.#", "auto-create-dead-letter-resources=false", "expiry-address=A"),
        block("a.b.c", "expiry-address=E"),
    )
    assert settings(reading, "x").dead_name == "P.x"
    assert settings(reading, "a").dead_name == "P.a"
    both, apart = settings(reading, "a.b"), settings(reading, "a.b.c")
    assert (both.dead_name, both.dead_letter.process_expired) == ("A", True)
    assert (apart.dead_name, apart.expired_name, apart.dead_letter.process_expired) == ("A", "E", False)


def test_wildcards_of_its_own() -> None:
    reading = core(
        "<wildcard-addresses><delimiter>/</delimiter><any-words>></any-words></wildcard-addresses>",
        "<literal-match-markers>()</literal-match-markers>",
        block("a/*/>", "max-delivery-attempts=3", "dead-letter-address=dead/a"),
        block("(b/x)", "max-delivery-attempts=3"),
        block("a.b/c", "max-delivery-attempts=3"),
        block("(c/*)", "max-delivery-attempts=3"),
    )
    assert list(reading.entries) == ["a.*.#", "b.x"]
    assert settings(reading, "a.b").dead_name == "dead.a"
    lost = [(one.line, one.place) for one in reading.findings if one.outcome == "no counterpart"]
    assert lost == [(1, "core"), (6, "address-setting a.b/c"), (7, "address-setting (c/*)")]


def test_names_may_be_said_for_what_has_none_here() -> None:
    text = b"<core><address-settings>%s</address-settings></core>"
    odd = text % block("a.#.b", "dead-letter-address=my queue", "max-delivery-attempts=2").encode()
    unmapped = read_broker_xml(odd)
    assert unmapped.entries == {}
    (finding,) = unmapped.findings
    assert "--map 'a.#.b=…'" in finding.note
    reading = read_broker_xml(odd, {"a.#.b": "a.*.b", "my queue": "lost"})
    assert settings(reading, "a.x.b").dead_name == "lost"
    assert settings(reading, "a.x.b").redelivery.max_redeliveries == 1


def test_a_dead_letter_queue_has_no_policy() -> None:
    reading = core(block("#", "dead-letter-address=DLQ"), block("DLQ", "max-delivery-attempts=-1"))
    assert list(reading.entries) == ["#"]
    note = next(one.note for one in reading.findings if one.line == 3)
    assert note.startswith("it is not imported")


def found(reading: Reading, setting: str, line: int) -> tuple[str, str]:
    """What becomes of a setting, and why."""
    assert reading.problems == []
    (one,) = [one for one in reading.findings if (one.setting, one.line) == (setting, line)]
    return one.outcome, one.note


def test_a_chain_of_retries_has_no_counterpart() -> None:
    reading = core(
        block("orders", "dead-letter-address=retry.orders", "max-delivery-attempts=2"),
        block("retry.orders", "dead-letter-address=DLQ", "max-delivery-attempts=3", "redelivery-delay=60000"),
        block("DLQ", "dead-letter-address=DLQ"),
    )
    assert list(reading.entries) == ["orders"]
    outcome, note = found(reading, "match", 3)
    assert outcome == "no counterpart"
    assert "a chain of retries ends there" in note
    assert found(reading, "match", 4)[0] == "not needed", "it is its own dead-letter address"


def test_how_long_a_dead_letter_address_keeps_is_named_as_that() -> None:
    reading = core(
        block("#", "dead-letter-address=DLQ", "expiry-address=Late"),
        block("DLQ", "expiry-delay=4000"),
        block("Late", "expiry-delay=-1"),
    )
    outcome, note = found(reading, "expiry-delay", 3)
    assert outcome == "no counterpart"
    assert "--expiration 4000ms" in note
    assert [one for one in reading.findings if one.line == 4 and one.setting == "expiry-delay"] == []


def test_a_dead_letter_has_the_doors_that_it_has_there() -> None:
    """The file that `artemis create` writes, with auto-created resources; and configured queues."""
    automatic = block("#", "dead-letter-address=DLQ", "auto-create-dead-letter-resources=true")
    orders = settings(core(automatic), "orders")
    assert (orders.dead_name, orders.dead_letter_aliases) == ("DLQ.orders", "DLQ")
    prefixed = settings(core(automatic, block("a.#", "dead-letter-queue-prefix=X.")), "a.b")
    assert (prefixed.dead_name, prefixed.dead_letter_aliases) == ("X.a.b", "DLQ")
    plain = core(automatic, block("a.#", "auto-create-dead-letter-resources=false"))
    assert (settings(plain, "a.b").dead_name, settings(plain, "a.b").dead_letter_aliases) == ("DLQ", None)
    text = (
        "<core><addresses><address name='DLA'><anycast><queue name='DLA'/><queue name='audit'/></anycast>"
        f"</address></addresses><address-settings>{block('#', 'dead-letter-address=DLA')}"
        f"{block('x', 'dead-letter-address=Nowhere')}</address-settings></core>"
    )
    reading = read_broker_xml(text.encode())
    found = settings(reading, "orders")
    assert (found.dead_name, found.dead_letter_aliases) == ("DLA", "audit")
    found = settings(reading, "x")
    assert (found.dead_name, found.dead_letter_aliases) == ("Nowhere", None)
    assert any("no queue is configured on it" in one.note for one in reading.findings)


def test_an_expired_message_has_the_doors_that_it_has_there() -> None:
    """The same rule; where both addresses are one, what expires is a dead letter and has its doors."""
    automatic = block("#", "expiry-address=EA", "auto-create-expiry-resources=true")
    orders = settings(core(automatic), "orders")
    assert (orders.expired_name, orders.expiry_aliases) == ("EXP.orders", "EA")
    own = settings(core(automatic, block("a.#", "auto-create-expiry-resources=false")), "a.b")
    assert (own.expired_name, own.expiry_aliases) == ("EA", None)
    text = (
        "<core><addresses><address name='EA'><anycast><queue name='EA'/><queue name='late'/></anycast>"
        f"</address></addresses><address-settings>{block('#', 'expiry-address=EA')}"
        f"{block('x', 'dead-letter-address=EA')}</address-settings></core>"
    )
    reading = read_broker_xml(text.encode())
    assert (settings(reading, "orders").expired_name, settings(reading, "orders").expiry_aliases) == (
        "EA",
        "late",
    )
    assert settings(reading, "x").dead_letter_aliases == "late"


def test_ids_after_the_ack_are_named() -> None:
    """There an id sent again after its ack is a duplicate; here it is new, unless a policy says otherwise."""
    outcome, note = found(core(block("a", "max-delivery-attempts=3")), "id-cache-size", 1)
    assert outcome == "no counterpart"
    assert "--dedup-window 10m" in note
    outcome, note = found(core(block("a", "max-delivery-attempts=3", "id-cache-size=20")), "id-cache-size", 2)
    assert (outcome, "--dedup-window" in note) == ("no counterpart", True)


def test_a_fully_qualified_name_is_that_of_its_queue() -> None:
    reading = core(block("#", "dead-letter-address=Dead::Dead.one"))
    assert settings(reading, "orders").dead_name == "Dead.one"


def test_addresses_of_artemis_itself_and_of_topics_are_not_queues() -> None:
    reading = core(
        block("activemq.management#", "max-delivery-attempts=3"), block("jms.topic.a", "redelivery-delay=1"),
        block("jms.queue.orders", "max-delivery-attempts=3"),
    )  # fmt: skip
    assert [*reading.entries] == ["orders"]
    outcomes = [(one.outcome, one.note) for one in reading.findings if one.setting == "match"]
    assert [outcome for outcome, _ in outcomes] == ["not needed", "no counterpart", "not needed"]
    assert "orders here: jms.queue. is a prefix of Artemis 1" in outcomes[2][1]


WRONG: list[tuple[list[str], list[tuple[int, str, str]]]] = [
    ([], [(1, "address-settings", "nothing to import")]),
    ([block("a", "redelivery-delay=5s")], [(2, "redelivery-delay", "'5s' is not a whole number")]),
    ([block("a", "redelivery-delay=")], [(2, "redelivery-delay", "'' is not a whole number")]),
    ([block("a", "redelivery-delay=${wait}")], [(2, "redelivery-delay", "value of the property wait into")]),
    (
        [block("a", "redelivery-delay=${wait:50}")],
        [(2, "redelivery-delay", "or its default, 50, into a copy")],
    ),
    ([block("a", "redelivery-delay=-5")], [(2, "redelivery-delay", "Pass a whole number, 0")]),
    ([block("a", "max-redelivery-delay=-1")], [(2, "max-redelivery-delay", "Pass a whole number, 0")]),
    ([block("a", "max-delivery-attempts=0")], [(2, "max-delivery-attempts", "-1 no limit, as 0 does there")]),
    ([block("a", "max-delivery-attempts=-7")], [(2, "max-delivery-attempts", "-1 no limit")]),
    ([block("a", "redelivery-delay-multiplier=0.5")], [(2, "redelivery-delay-multiplier", "1 or more")]),
    (
        [block("a", "redelivery-delay-multiplier=NaN")],
        [(2, "redelivery-delay-multiplier", "is not a number")],
    ),
    (
        [block("a", "redelivery-collision-avoidance-factor=1.01")],
        [(2, "redelivery-collision-avoidance-factor", "0 to 1")],
    ),
    (
        [block("a", "redelivery-delay=9", "max-redelivery-delay=5")],
        [(2, "max-redelivery-delay", "is longer than max-redelivery-delay")],
    ),
    ([block("a", "expiry-delay=0")], [(2, "expiry-delay", "Write -1 for no expiry")]),
    ([block("a", "expiry-delay=-2")], [(2, "expiry-delay", "not a whole number, -1 or more")]),
    ([block("a", "max-expiry-delay=315360000001")], [(2, "max-expiry-delay", "Pass a whole number")]),
    (
        [block("a", "min-expiry-delay=9", "max-expiry-delay=5")],
        [(2, "max-expiry-delay", "is longer than max_expiry_delay")],
    ),
    ([block("a", "no-expiry=yes")], [(2, "no-expiry", "neither true nor false")]),
    (
        [block("a", "auto-create-dead-letter-resources=1")],
        [(2, "auto-create-dead-letter-resources", "neither true nor false")],
    ),
    (
        [block("a", "auto-create-dead-letter-resources=true", "dead-letter-queue-prefix=")],
        [(2, "dead-letter-queue-prefix", "the name would be the queue's own")],
    ),
    ([block("a", "dead-letter-address=my queue")], [(2, "dead-letter-address", "cannot name a queue")]),
    ([block("a", "redelivery-dely=5")], [(2, "redelivery-dely", "the closest is redelivery-delay")]),
    (
        [block("a", "redelivery-delay=5", "redelivery-delay=6")],
        [(2, "redelivery-delay", "it is already set in line 2")],
    ),
    (
        [block("a.b", "redelivery-delay=5"), "", block("a.b", "expiry-delay=6")],
        [(4, "match", "a.b already has a block, line 2")],
    ),
    (["<address-setting><expiry-delay>5</expiry-delay></address-setting>"], [(2, "match", "it is missing")]),
    (
        ["<address-setting match='a'><include href='more.xml'/></address-setting>"],
        [(2, "include", "an address-setting has no such setting")],
    ),
    (
        ["<wildcard-addresses><delimiter>::</delimiter></wildcard-addresses>", block("a", "no-expiry=true")],
        [(2, "delimiter", "'::' is not one character")],
    ),
    (
        ["<literal-match-markers>(</literal-match-markers>", block("a", "no-expiry=true")],
        [(2, "literal-match-markers", "not two characters")],
    ),
    (
        [block("a", "no-expiry=x"), block("b", "redelivery-delay=1"), block("c", "expiry-delay=x")],
        [(2, "no-expiry", "neither"), (4, "expiry-delay", "not a whole number")],
    ),
]


@each_row("lines, problems", WRONG)
def test_what_is_wrong_is_named_with_its_line(lines: list[str], problems: list[tuple[int, str, str]]) -> None:
    reading = core(*lines)
    assert [(one.line, one.setting) for one in reading.problems] == [(at, name) for at, name, _ in problems]
    for problem, (_, _, message) in zip(reading.problems, problems, strict=True):
        assert message in problem.message
    assert reading.entries == {}


def test_it_knows_all_settings_that_artemis_has() -> None:
    assert len(set(KNOWN)) == len(KNOWN) == 79  # as its schema has
