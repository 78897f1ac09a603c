"""Entries of the map of policies, drawn at random."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from rq_dlq.errors import PolicyError
from rq_dlq.policy import (
    Breaker,
    DiscardingDeadLetterStrategy,
    Entry,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    PerKey,
    SharedDeadLetterStrategy,
)
from tests.policy import policies

WORDS = ["a", "b", "c"]
name = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(".".join)
flag: st.SearchStrategy[Any] = st.sampled_from([UNSET, True, False])
span: st.SearchStrategy[Any] = st.one_of(
    st.just(UNSET), st.none(), st.integers(1, 10_000_000).map(lambda ms: ms / 1000)
)
interval: st.SearchStrategy[Any] = st.sampled_from([UNSET, 1])
affix: st.SearchStrategy[Any] = st.sampled_from([UNSET, "", "DLQ.", "EXP.", "x.", ".y"])
shared = st.sampled_from(["a", "a.b", "DLQ.a", "EXP.a.b", "lost", "ActiveMQ.DLQ"])


@st.composite
def pattern(draw: st.DrawFn) -> str:
    """A pattern's text, with `#` for `>`."""
    words = draw(st.lists(st.sampled_from([*WORDS, "*"]), max_size=5))
    end = ["#"] if not words or draw(st.booleans()) else []
    return ".".join([*words, *end])


@st.composite
def redelivery(draw: st.DrawFn) -> dict[str, Any]:
    """Some of a policy's fields."""
    growing: dict[str, st.SearchStrategy[Any]] = {
        "initial_delay": st.integers(0, 600_000).map(lambda ms: ms / 1000),
        "multiplier": policies.multiplier,
        "max_delay": st.one_of(st.none(), st.integers(0, 10_000_000).map(lambda ms: ms / 1000)),
        "arithmetic": st.sampled_from(["rq", "artemis", "activemq"]),
    }
    listed = {"delays": st.lists(st.integers(0, 1_000), min_size=1, max_size=4)}
    common = {"collision_avoidance": policies.factor, "max_redeliveries": policies.limit}
    fields = {**draw(st.sampled_from([growing, listed])), **common}
    said = {key: draw(value) for key, value in fields.items() if draw(st.booleans())}
    if said.get("arithmetic") == "activemq" and draw(st.booleans()):
        said["redelivery_delay"] = draw(st.integers(0, 1_000))
    return said


@st.composite
def dead_letter(draw: st.DrawFn) -> Any:
    """A strategy, some fields of one, or None."""
    common: dict[str, Any] = {
        "process_expired": draw(flag),
        "process_non_persistent": draw(flag),
        "expiration": draw(span),
    }
    kind = draw(st.sampled_from(["individual", "shared", "discarding", "some", "none"]))
    if kind == "individual":
        return IndividualDeadLetterStrategy(prefix=draw(affix), suffix=draw(affix), **common)
    if kind == "shared":
        return SharedDeadLetterStrategy(draw(shared), **common)
    if kind == "discarding":
        only = draw(st.sampled_from([UNSET, None, "a.b", ["a.#", "[ab].*"]]))
        return DiscardingDeadLetterStrategy(only=only, report_interval=draw(interval), **common)
    return common if kind == "some" else None


@st.composite
def expiry(draw: st.DrawFn) -> ExpiryPolicy:
    """Some fields of a policy."""
    place: dict[str, Any] = draw(
        st.fixed_dictionaries({}, optional={"prefix": affix, "suffix": affix})
        | st.fixed_dictionaries({}, optional={"name": st.none() | shared})
        | st.fixed_dictionaries({"discard": st.booleans()})
    )
    names = ("expiry_delay", "min_expiry_delay", "max_expiry_delay", "retention")
    spans: dict[str, Any] = {key: draw(span) for key in names}
    return ExpiryPolicy(**spans, no_expiry=draw(flag), **place)


@st.composite
def entry(draw: st.DrawFn) -> Entry:
    """A valid one; what is drawn and does not fit is left out."""
    parts: dict[str, Any] = {
        "max_length": draw(st.sampled_from([UNSET, None, 1, 100_000])),
        "max_in_flight": draw(st.sampled_from([UNSET, None, 1, 7])),
        "rate": draw(st.sampled_from([UNSET, None, 7, "100/s", "5/10m"])),
        "outcomes": draw(st.sampled_from([UNSET, None, 0, 1_000])),
        "results": draw(st.sampled_from([UNSET, None, 120, "1h"])),
        "results_bytes": draw(st.sampled_from([UNSET, None, 7, "64MB"])),
        "dedup_window": draw(st.sampled_from([UNSET, None, 120, "1h"])),
        "dead_letter_aliases": draw(st.sampled_from([UNSET, None, "lost", ["a.lost", "b"]])),
        "expiry_aliases": draw(st.sampled_from([UNSET, UNSET, None, "late", ["a.late", "b"]])),
        "breaker": draw(st.sampled_from([UNSET, UNSET, None, "distinct=9 within=1m", Breaker(share=0.9)])),
        "per_key": draw(
            st.sampled_from([UNSET, UNSET, None, "order hold rate 9/m", "limit 8", PerKey(fair=True)])
        ),
    }
    drawn = {
        "redelivery": policies.every | redelivery(),
        "dead_letter": dead_letter(),
        "expiry": expiry(),
    }
    for part, values in drawn.items():
        if draw(st.booleans()):
            try:
                value = draw(values)
                Entry.of(**parts, **{part: value})
            except PolicyError:
                continue
            parts[part] = value
    if all(value is UNSET for value in parts.values()):
        parts["max_in_flight"] = 1
    try:
        return Entry.of(**parts, pinned=draw(st.booleans()))
    except PolicyError:
        return Entry.of(max_in_flight=1)


tables = st.dictionaries(pattern(), entry(), max_size=5)
