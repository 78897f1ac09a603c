from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rq_dlq.policy import (
    DiscardingDeadLetterStrategy,
    Entry,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    Pattern,
    PolicyMap,
    QueueSettings,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from rq_dlq.policy.fields import PLAIN, WRITTEN, in_redis
from rq_dlq.policy.patterns import PatternIndex
from rq_dlq.values.names import Naming, Template
from tests.policy import entries, policies
from tests.tables import each_row

DROPPED_IF_EXPIRED = DiscardingDeadLetterStrategy(process_expired=True)
REPORTED_BY_FIVE = DiscardingDeadLetterStrategy(report_interval=5)


def settings(*said: tuple[str, Entry], family: str = "a.b", declared: Entry | None = None) -> QueueSettings:
    return PolicyMap(dict(said)).settings(family, declared)


@given(st.lists(entries.pattern(), unique=True, max_size=8), entries.name)
def test_the_rank_is_a_total_order(texts: list[str], name: str) -> None:
    matching = [Pattern.parse(text) for text in texts if Pattern.parse(text).matches(name)]
    assert all((one.rank < two.rank) != (two.rank < one.rank) for one, two in combinations(matching, 2))
    kinds = [tuple(kind for kind, _ in pattern.rank) for pattern in sorted(matching, key=lambda p: p.rank)]
    assert kinds == sorted(kinds)  # words do not decide: those of patterns that meet are the same
    if name in texts:
        assert PolicyMap(dict.fromkeys(texts, Entry.of(max_in_flight=1))).resolve(name)[0] == name


@given(st.lists(entries.pattern(), unique=True, max_size=8), entries.pattern())
def test_the_index_finds_all_that_cover_a_pattern(texts: list[str], text: str) -> None:
    patterns, wanted = [Pattern.parse(each) for each in texts], Pattern.parse(text)
    covering = sorted((each for each in patterns if each.covers(wanted)), key=lambda each: each.rank)
    assert PatternIndex(patterns).covering(wanted) == covering


@each_row(
    "stronger, weaker",
    [
        ("a.b", "a.*"),
        ("a.*", "a.#"),
        ("a.b", "a.b.#"),
        ("a.b.#", "a.*"),
        ("a.*", "*.b"),
        ("*.b", "*.#"),
        ("*", "#"),
    ],
)
def test_more_specific_from_the_left(stronger: str, weaker: str) -> None:
    assert Pattern.parse(stronger).rank < Pattern.parse(weaker).rank


def test_patterns_of_the_same_text_are_the_same() -> None:
    assert Pattern.parse("a.>") == Pattern.parse("a.#")
    assert hash(Pattern.parse(">")) == hash(Pattern.parse("#"))
    assert [Pattern.parse(text).literal for text in ("a.b", "a.*", "#")] == [True, False, False]
    assert Pattern.parse("{shop}.#").matches("{shop}.orders")


@given(entries.tables, entries.name, st.none() | entries.entry())
def test_settings_never_raise_and_are_complete(
    table: dict[str, Entry], family: str, declared: Entry | None
) -> None:
    stored = PolicyMap(table)
    got = stored.settings(family, declared)
    assert got == pickle.loads(pickle.dumps(stored)).settings(family, declared)  # noqa: S301
    assert got.dead_name != family != got.expired_name != got.dead_name
    assert RedeliveryPolicy.from_wire(got.redelivery.as_wire()) == got.redelivery
    fields = [source.field for source in got.sources]
    assert len(set(fields)) == len(fields)
    known = {"default", "declared in code", *table, *(f"pinned {text}" for text in table)}
    assert {source.source for source in got.sources} <= known
    assert None not in {got.dead_letter.as_wire()[name] for name in ("strategy", "process_expired")}
    assert set(got.wire()) < set(WRITTEN)


@given(entries.entry(), entries.name)
def test_what_is_said_twice_is_said_once(entry: Entry, family: str) -> None:
    once, twice = (
        settings((family, entry), family=family),
        settings((family, entry), ("#", entry), family=family),
    )
    assert once == twice


@given(entries.entry(), entries.entry())
def test_field_by_field(strong: Entry, weak: Entry) -> None:
    """A field comes from the strongest that says it."""
    ranked = sorted([("a.b", strong), ("#", weak)], key=lambda item: not item[1].pinned)
    got = settings(*ranked)
    for source in got.sources:
        part, _, field = source.field.partition(".")
        if part in {"redelivery", "expiry"}:
            sayers = [
                ("pinned " if entry.pinned else "") + text
                for text, entry in ranked
                if field in entry.part(part)
            ]
            allowed = sayers[:1] if part == "redelivery" else [*sayers[:1], "default"]  # a name may be taken
            assert source.source in (allowed or ["default"])
    for row in PLAIN:
        said = [entry.stored[row.name] for _, entry in ranked if row.name in entry.stored]
        assert in_redis(row, getattr(got, row.name)) == next(iter(said), row.default)


@given(policies.every)
def test_a_declared_policy_is_what_holds(policy: RedeliveryPolicy) -> None:
    declared = Entry.of(redelivery=policy)
    other = Entry.of(redelivery=RedeliveryPolicy(delays=[1, 2]), max_in_flight=3)
    got = settings(("a.b", other), declared=declared)
    assert got.redelivery.as_wire() == policy.as_wire()
    assert got.max_in_flight == 3
    assert msgspec.json.decode(got.wire()["redelivery"]) == {"redelivery": policy.as_wire()}
    assert list(settings().wire()) == ["redelivery"]


def test_strength() -> None:
    """Pinned before declared before the others; each the most specific first."""

    def limit(n: int, *, pinned: bool = False) -> Entry:
        return Entry.of(redelivery={"max_redeliveries": n}, pinned=pinned)

    said = [
        ("#", limit(1, pinned=True)),
        ("a.#", limit(2, pinned=True)),
        ("a.b", limit(3)),
        ("a.*", limit(4)),
    ]
    strongest: list[Any] = []
    while said:
        got = settings(*said, declared=limit(9))
        strongest.append(got.redelivery.max_redeliveries)
        said.remove(min(said, key=lambda item: (not item[1].pinned, Pattern.parse(item[0]).rank)))
    assert strongest == [2, 1, 9, 9]
    assert settings(("a.b", limit(3)), ("a.*", limit(4))).redelivery.max_redeliveries == 3


def test_sources() -> None:
    orders = Entry.of(redelivery={"initial_delay": "5s"}, dead_letter={"expiration": "30d"})
    got = settings(("a.>", orders), ("#", Entry.of(max_in_flight=2, pinned=True)))
    sources = {source.field: (source.value, source.source) for source in got.sources}
    assert sources["redelivery.initial_delay"] == (5_000, "a.#")
    assert sources["redelivery.multiplier"] == (2.0, "default")
    assert sources["dead_letter.strategy"] == ("individual", "default")
    assert sources["dead_letter.expiration"] == (2_592_000_000, "a.#")
    assert sources["expiry.prefix"] == ("EXP.", "default")
    assert sources["max_in_flight"] == (2, "pinned #")


def test_waits_of_entries_that_meet_are_held_to_the_longest() -> None:
    got = settings(
        ("a.b", Entry.of(redelivery={"max_delay": "2s"})),
        ("#", Entry.of(redelivery={"initial_delay": "5m", "max_delay": "8m"})),
    )
    assert (got.redelivery.initial_delay, got.redelivery.max_delay) == (2, 2)


def test_a_list_of_waits_is_all_of_them() -> None:
    listed = Entry.of(redelivery={"delays": [1, 5]})
    got = settings(("a.b", listed), ("#", Entry.of(redelivery=RedeliveryPolicy.artemis(redelivery_delay=7))))
    assert got.redelivery == RedeliveryPolicy(delays=[1, 5], collision_avoidance=0, max_redeliveries=9)
    grown = settings(("a.b", Entry.of(redelivery={"initial_delay": "3s"})), ("#", listed)).redelivery
    assert (grown.delays, grown.initial_delay, grown.max_delay) == (None, 3, 5)


def test_the_maximum_of_artemis_is_ten_times_the_delay() -> None:
    artemis = Entry.of(redelivery={"arithmetic": "artemis"})
    got = settings(("a.b", Entry.of(redelivery={"initial_delay": "2s"})), ("#", artemis)).redelivery
    assert got == RedeliveryPolicy.artemis(redelivery_delay=2_000)


@each_row(
    "said, family, expected",
    [
        ({"dead_letter": None}, "a", {"dead": "discard"}),
        ({"dead_letter": {"process_expired": True}}, "a", {"expired": "dead"}),
        ({"dead_letter": DROPPED_IF_EXPIRED}, "a", {"dead": "discard", "expired": "discard"}),
        ({"dead_letter": {"process_non_persistent": False}}, "a", {"transient": "discard"}),
        ({"dead_letter": {"expiration": "1s"}}, "a", {"dead_for": 1_000}),
        ({"expiry": {"discard": True}}, "a", {"expired": "discard"}),
        ({"expiry": {"discard": True}, "dead_letter": {"process_expired": True}}, "a", {"expired": "dead"}),
        ({"expiry": {"retention": "2s"}}, "a", {"expired_for": 2_000}),
        ({"dead_letter": REPORTED_BY_FIVE}, "a", {"dead": "discard", "report_interval": 5}),
        ({"dead_letter": {"report_interval": 5}}, "a", {}),
        ({"dead_letter": DiscardingDeadLetterStrategy(only="b.#", process_expired=True)}, "a", {}),
        ({"dead_letter": DiscardingDeadLetterStrategy(only="b.#")}, "b.c", {"dead": "discard"}),
    ],
)  # fmt: skip
def test_wire_of_the_dead(said: dict[str, Any], family: str, expected: dict[str, Any]) -> None:
    usual = {
        "dead": "keep", "expired": "expired", "transient": "keep",
        "dead_for": None, "expired_for": None, "report_interval": 1000,
    }  # fmt: skip
    wire = settings(("#", Entry.of(**said)), family=family).wire()
    assert msgspec.json.decode(wire.get("dead_letter", msgspec.json.encode(usual))) == {**usual, **expected}
    assert ("dead_letter" in wire) is bool(expected)


@each_row(
    "expiry, expected",
    [
        ({"min_expiry_delay": 1, "max_expiry_delay": 5}, "- 1000 5000"),
        ({"expiry_delay": "1m"}, "60000 - -"),
        ({"no_expiry": True, "expiry_delay": 1}, "never"),
        ({"expiry_delay": None}, None),
        ({"retention": 1}, None),
    ],
)
def test_wire_of_ttls(expiry: dict[str, Any], expected: str | None) -> None:
    assert settings(("#", Entry.of(expiry=expiry, max_in_flight=4))).wire().get("expiry") == expected
    assert settings(("#", Entry.of(expiry=expiry, max_in_flight=4))).wire()["max_in_flight"] == "4"
    assert settings(("#", Entry.of(expiry=expiry, outcomes=5))).wire()["outcomes"] == "5"


def test_for_other_queues_a_list_says_nothing() -> None:
    weak = Entry.of(dead_letter=SharedDeadLetterStrategy("lost", expiration=5))
    strong = Entry.of(dead_letter=DiscardingDeadLetterStrategy(only=["a.[0-9]{3}"], expiration=9))
    assert (
        settings(("a.*", strong), ("#", weak), family="a.12").dead_letter == settings(("#", weak)).dead_letter
    )
    assert isinstance(
        settings(("a.*", strong), ("#", weak), family="a.123").dead_letter, DiscardingDeadLetterStrategy
    )


def test_one_destination_counts() -> None:
    shared, own = Entry.of(expiry={"name": "late"}), Entry.of(expiry={"prefix": "L."})
    dropped = Entry.of(expiry={"discard": True})
    assert settings(("a.b", own), ("#", shared)).expired_name == "L.a.b"
    assert settings(("a.b", shared), ("#", own)).expired_name == "late"
    assert settings(("a.b", shared), ("#", dropped)).expiry.discard is False
    assert settings(("a.b", dropped), ("#", shared)).expiry == settings(("#", dropped)).expiry
    prefix = Entry.of(dead_letter={"prefix": "D."})
    named = Entry.of(dead_letter={"name": "lost"})
    assert settings(("a.b", prefix), ("#", named)).dead_name == "D.a.b"
    assert settings(("a.b", named), ("#", prefix)).dead_name == "lost"


def test_a_shared_queue_is_not_its_own_dead_letter_queue() -> None:
    said = Entry.of(dead_letter=SharedDeadLetterStrategy("lost"), expiry=ExpiryPolicy(name="late"))
    got = settings(("#", said), family="lost")
    assert (got.dead_name, got.expired_name) == ("DLQ.lost", "late")
    assert isinstance(got.dead_letter, IndividualDeadLetterStrategy)


def test_names_of_the_broker() -> None:
    naming = Naming(dead=Template("", ".dead"), expired=Template("", ".late"))
    got = PolicyMap({}, naming).settings("a")
    assert (got.dead_name, got.expired_name) == ("a.dead", "a.late")
    assert got.dead_letter == IndividualDeadLetterStrategy(
        prefix="", suffix=".dead", process_expired=False, process_non_persistent=True, expiration=None
    )
    emptied = Entry.of(dead_letter=IndividualDeadLetterStrategy(suffix=""))
    assert PolicyMap({"#": emptied}, naming).settings("a").dead_name == "a.dead"


def test_read() -> None:
    entry = Entry.of(max_in_flight=3)
    text = entry.encode()
    fields = {b"#version": b"7", b"a.#": text, b"version": text, b"b": b"{", b"a*": text, b"\xff": b"{}"}
    stored = PolicyMap.read(fields, Naming())
    assert (stored.version, stored.entries) == (7, {"a.#": entry, "version": entry})
    assert stored.unreadable == ("\\xff", "a*", "b")
    assert PolicyMap.read({b"#version": b"many"}, Naming()).version == 0
    assert PolicyMap.read({}, Naming()) == PolicyMap({})
