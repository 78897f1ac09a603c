"""The table of settings against what is written out beside it: types, classes, docs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec

from rq_dlq.policy import (
    Declared,
    DiscardingDeadLetterStrategy,
    Entry,
    EntryFields,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    PolicyMap,
    QueueSettings,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
)
from rq_dlq.policy.fields import BY_PART, FIELDS, PARTS, PLAIN, SETTABLE, TABLE, WRITTEN, Field
from rq_dlq.policy.policy_map import IN_FORCE
from tests.tables import each_row

CLASSES: dict[str, tuple[type[Any], ...]] = {
    "redelivery": (RedeliveryPolicy,),
    "dead_letter": (
        IndividualDeadLetterStrategy,
        SharedDeadLetterStrategy,
        DiscardingDeadLetterStrategy,
    ),
    "expiry": (ExpiryPolicy,),
}
ELSEWHERE = {
    "redelivery": {"fatal", "preset"},  # which do not go to Redis as they are
    "dead_letter": set[str](),
    "expiry": set[str](),
}
SAID_BY_THE_KIND = {"strategy", "arithmetic", "redelivery_delay"}
"""Fields in Redis that in code are the class, or the preset."""


@each_row("typed", [EntryFields, Declared])
def test_every_field_has_a_type(typed: Any) -> None:
    assert typed.__annotations__.keys() == set(SETTABLE)


def test_every_field_is_told() -> None:
    told = {field.name for field in dataclasses.fields(QueueSettings)}
    assert told - {"dead_name", "expired_name", "sources"} == set(SETTABLE)
    assert [source.field for source in PolicyMap({}).settings("a").sources][-len(PLAIN) :] == [
        row.where for row in PLAIN
    ]


@each_row("part", PARTS)
def test_classes_hold_the_fields_of_their_part(part: str) -> None:
    held = {field.name for kind in CLASSES[part] for field in dataclasses.fields(kind)}
    assert held - ELSEWHERE[part] == BY_PART[part].keys() - SAID_BY_THE_KIND


@each_row("name", WRITTEN)
def test_every_field_in_redis_is_described(name: str) -> None:
    readme = Path(__file__).parents[2] / "lua" / "README.md"
    assert f"\n| `{name}` | " in readme.read_text(encoding="utf-8")


def test_no_option_means_two_fields() -> None:
    options = [option for row in TABLE for option in row.option.split("/")]
    assert len(set(options)) == len(options) >= len(FIELDS)


@each_row("row", [row for row in PLAIN if row.name not in IN_FORCE])
def test_what_is_said_stands_in_redis_as_it_is(row: Field) -> None:
    value = {"NAME": "lost found", "N/SPAN": "7/s"}.get(row.kind, 7)
    said: dict[str, Any] = {row.name: value}
    entry = Entry.of(**said)
    stands = 7_000 if row.in_ms else value
    assert msgspec.json.decode(entry.encode()) == {row.name: stands}
    assert Entry.decode(entry.encode()) == entry
    settings = PolicyMap({"#": entry}).settings("a")
    assert (getattr(settings, row.name), settings.wire()[row.name]) == (value, str(stands))
    assert row.name not in PolicyMap({}).settings("a").wire()
