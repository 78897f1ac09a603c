from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rq_dlq.errors import PolicyError
from rq_dlq.policy import (
    DiscardingDeadLetterStrategy,
    Entry,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    Pattern,
    PolicyMap,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from tests.policy import entries
from tests.tables import each_row

span = st.none() | st.integers(1, 1_000)


@given(entries.entry())
def test_round_trip(entry: Entry) -> None:
    assert Entry.decode(entry.encode()) == entry
    assert Entry.decode(entry.encode()).encode() == entry.encode()
    assert pickle.loads(pickle.dumps(entry)) == entry  # noqa: S301


@each_row(
    "said, text",
    [
        (
            {"redelivery": {"initial_delay": "5s"}, "max_in_flight": None},
            {"redelivery": {"initial_delay": 5_000, "delays": None}, "max_in_flight": None},
        ),
        ({"outcomes": 0}, {"outcomes": None}),
        ({"outcomes": 100_000}, {"outcomes": 100_000}),
        ({"dedup_window": "2m"}, {"dedup_window": 120_000}),
        ({"dedup_window": None}, {"dedup_window": None}),
        ({"dead_letter_aliases": ["a", "b", "a"]}, {"dead_letter_aliases": "a b"}),
        ({"dead_letter_aliases": []}, {"dead_letter_aliases": None}),
        ({"expiry_aliases": "late"}, {"expiry_aliases": "late"}),
        (
            {"redelivery": {"delays": ["1s", 2]}},
            {
                "redelivery": {
                    "arithmetic": "rq",
                    "initial_delay": 1_000,
                    "multiplier": 1.0,
                    "max_delay": 2_000,
                    "delays": [1_000, 2_000],
                }
            },
        ),
        ({"dead_letter": None}, {"dead_letter": {"strategy": "discarding", "only": None}}),
        ({"dead_letter": {"prefix": "D."}}, {"dead_letter": {"strategy": "individual", "prefix": "D."}}),
        ({"dead_letter": {"name": "lost"}}, {"dead_letter": {"strategy": "shared", "name": "lost"}}),
        ({"dead_letter": {"expiration": "30d"}}, {"dead_letter": {"expiration": 2_592_000_000}}),
        (
            {"dead_letter": DiscardingDeadLetterStrategy(only="A.B C.>"), "pinned": True},
            {"dead_letter": {"strategy": "discarding", "only": ["A.B", "C.>"]}, "pinned": True},
        ),
        ({"expiry": {"discard": True}}, {"expiry": {"name": None, "discard": True}}),
        (
            {"expiry": ExpiryPolicy(name="late", retention="1s")},
            {"expiry": {"name": "late", "discard": False, "retention": 1_000}},
        ),
        ({"redelivery": msgspec.UNSET, "expiry": {"no_expiry": True}}, {"expiry": {"no_expiry": True}}),
    ],
)
def test_only_what_is_said_goes_to_redis(said: dict[str, Any], text: dict[str, Any]) -> None:
    assert msgspec.json.decode(Entry.of(**said).encode()) == text


def test_a_policy_says_all_its_fields() -> None:
    said = Entry.of(redelivery=RedeliveryPolicy(fatal=(ValueError,))).part("redelivery")
    assert said == RedeliveryPolicy().as_wire()


@each_row(
    "said, complaint",
    [
        ({}, "sets nothing. Pass redelivery"),
        ({"redelivery": {}}, "sets nothing"),
        ({"foo": 1}, "the policy of a queue has no field 'foo'. Possible are redelivery, dead_letter, "),
        ({"redelivery": {"fatal": (ValueError,)}}, "fatal has classes, which Redis cannot store"),
        ({"redelivery": {"initial_dellay": 1}}, "closest is 'initial_delay'"),
        ({"redelivery": 5}, "Pass a RedeliveryPolicy, or a mapping"),
        ({"redelivery": {"initial_delay": "soon"}}, "'soon' is not a duration"),
        ({"redelivery": {"initial_delay": "20m"}}, r"longer than max_delay \(10m\)"),
        ({"redelivery": {"multiplier": 0.5}}, "multiplier is 0.5. Pass a number, 1 or more"),
        ({"redelivery": {"max_redeliveries": -2}}, r"or None \(or -1\) for no limit"),
        ({"redelivery": {"arithmetic": "kafka"}}, "Pass one of rq, artemis, activemq"),
        ({"redelivery": {"redelivery_delay": 1}}, "Add arithmetic: 'activemq'"),
        ({"redelivery": {"delays": []}}, "delays is empty"),
        ({"redelivery": {"delays": [1], "multiplier": 3}}, "delays sets"),
        ({"redelivery": {"delays": [1], "arithmetic": "artemis"}}, "delays sets"),
        ({"dead_letter": 5}, "dead_letter is 5. Pass a strategy, such as Individual"),
        ({"dead_letter": {"strategy": "lose"}}, "Pass one of individual, shared, discarding"),
        ({"dead_letter": {"strategy": ["shared"]}}, "Pass one of individual"),
        ({"dead_letter": {"strategy": "shared"}}, "Pass the name of the dead-letter queue"),
        ({"dead_letter": {"strategy": "shared", "prefix": "D."}}, "individual has prefix and suffix"),
        ({"dead_letter": {"name": "x", "prefix": "D."}}, "mixes strategies"),
        ({"dead_letter": {"only": "a"}}, "Add strategy: 'discarding'"),
        ({"dead_letter": {"expiration": 0}}, "Pass 1ms to 3650d"),
        ({"dead_letter": {"process_expired": 1}}, "Pass True or False"),
        ({"dead_letter": {"report_interval": 0}}, "Pass a whole number, 1 to"),
        ({"dead_letter": {"name": "x"}, "expiry": {"name": "x"}}, "Pass two names, or process_expired"),
        ({"dead_letter": {"prefix": "x"}, "expiry": {"prefix": "x"}}, "Pass two names, or process_expired"),
        ({"expiry": []}, "expiry is .* Pass an ExpiryPolicy"),
        ({"expiry": {"ttl": 1}}, "expiry has no field 'ttl'"),
        ({"max_in_flight": 0}, "or None for no limit"),
        ({"outcomes": -1}, "or None for no outcome history"),
        ({"outcomes": True}, "or None for no outcome history"),
        ({"dedup_window": 0}, "dedup_window: 0 is out of range"),
        ({"max_in_flight": 1, "pinned": 1}, "Pass True or False"),
    ],
)
def test_refuses_and_says_what_to_do(said: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        Entry.of(**said)


@each_row(
    "make, said, complaint",
    [
        (IndividualDeadLetterStrategy, {"prefix": ""}, "the name would be the queue's own"),
        (IndividualDeadLetterStrategy, {"prefix": "a b"}, "prefix: 'a b' cannot name a queue"),
        (IndividualDeadLetterStrategy, {"suffix": 5}, "suffix: a queue's name must be text"),
        (SharedDeadLetterStrategy, {"name": ""}, "name: a queue's name must be text"),
        (DiscardingDeadLetterStrategy, {"only": []}, "at least one name, or leave it out for all"),
        (DiscardingDeadLetterStrategy, {"only": "  "}, "at least one name"),
        (DiscardingDeadLetterStrategy, {"only": 5}, "at least one name"),
        (DiscardingDeadLetterStrategy, {"only": ["a b"]}, "without spaces"),
        (DiscardingDeadLetterStrategy, {"only": ["a", None]}, "only has None"),
        (
            DiscardingDeadLetterStrategy,
            {"only": "a.(b"},
            "not a regular expression: .* Dots separate words",
        ),
        (DiscardingDeadLetterStrategy, {"only": "a.#.b"}, "only at the end"),
        (ExpiryPolicy, {"expiry_delay": 0}, "expiry_delay: 0 is out of range. Pass 1ms"),
        (ExpiryPolicy, {"min_expiry_delay": 0}, "Pass 1ms"),
        (ExpiryPolicy, {"max_expiry_delay": "-1s"}, "not a duration|out of range"),
        (ExpiryPolicy, {"min_expiry_delay": 5, "max_expiry_delay": 3}, "Lower it, or raise max_expiry_delay"),
        (ExpiryPolicy, {"name": "late", "suffix": ".x"}, "Pass one or the other"),
        (ExpiryPolicy, {"discard": True, "name": "late"}, "Pass one or the other"),
        (ExpiryPolicy, {"discard": True, "prefix": "L."}, "Pass one or the other"),
        (ExpiryPolicy, {"prefix": "", "suffix": ""}, "the name would be the queue's own"),
    ],
)
def test_values_refuse_alike(make: Any, said: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        make(**said)


@each_row(
    "text, complaint",
    [
        ("a*", "a wildcard is a whole word"),
        ("a.#.b", "only at the end"),
        (None, "a pattern is text such as"),
        ("", "a pattern is text such as"),
        ("a b", "cannot name a queue"),
        ("#version", "a wildcard is a whole word"),
        ("x" * 201, "longer than 200 bytes"),
    ],
)
def test_patterns_refuse(text: Any, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        Pattern.parse(text)
    with pytest.raises(PolicyError):
        PolicyMap({text: Entry.of(max_in_flight=1)})


@each_row(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'{"pinned":true}',
        b'{"pinned":1,"max_in_flight":1}',
        b'{"redelivery":5}',
        b'{"redelivery":{"initial_delay":"5s"}}',
        b'{"redelivery":{"delays":5}}',
        b'{"redelivery":{"delays":[-1]}}',
        b'{"expiry":{"expiry_delay":0}}',
        b'{"expiry":{"expiry_delay":1.5}}',
        b'{"dead_letter":{"only":[]}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_entry(text: bytes) -> None:
    with pytest.raises(PolicyError):
        Entry.decode(text)


@each_row(
    "text",
    [
        {"weight": 1},
        {"max_in_flight": 1, "weight": {"of": [1]}, "pinned": True},
        {"redelivery": {"max_redeliveries": 3, "weight": 1.5}, "dead_letter": {"weight": None}},
    ],
)
def test_keeps_what_a_newer_version_says(text: dict[str, Any]) -> None:
    entry = Entry.decode(msgspec.json.encode(text))
    assert msgspec.json.decode(entry.encode()) == text
    PolicyMap({"#": entry}).settings("a")


def test_values_are_values() -> None:
    strategy = DiscardingDeadLetterStrategy(only=["A.*"], expiration="1m")
    assert (strategy.only, strategy.expiration, strategy.process_expired) == (("A.*",), 60.0, msgspec.UNSET)
    assert dataclasses.replace(strategy) == strategy == pickle.loads(pickle.dumps(strategy))  # noqa: S301
    assert hash(strategy) == hash(dataclasses.replace(strategy))
    with pytest.raises(dataclasses.FrozenInstanceError):
        strategy.only = None  # type: ignore[misc]
    assert SharedDeadLetterStrategy("lost") == SharedDeadLetterStrategy(name="lost")


@given(span, span, span, st.none() | st.integers(1, 2_000_000))
def test_clamp(default: int | None, low: int | None, high: int | None, ttl: int | None) -> None:
    assume(low is None or high is None or low <= high)
    policy = ExpiryPolicy(expiry_delay=default, min_expiry_delay=low, max_expiry_delay=high)
    got = policy.clamp(ttl)
    if default is not None:
        assert got == (default * 1000 if ttl is None else ttl)
        return
    assert (got is None) is (ttl is None and low is None and high is None)
    if got is not None:
        assert (low or 0) * 1000 <= got <= (high * 1000 if high else got)
        assert policy.clamp(got) == got
        assert ttl is None or got == ttl or got in {(low or 0) * 1000, (high or 0) * 1000}
    assert dataclasses.replace(policy, no_expiry=True).clamp(ttl) is None
