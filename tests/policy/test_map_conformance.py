"""Every row of the cases about patterns, entries, names and ttls, under its verdict.

S: the same here. P: the preset gives it. D: different on purpose, and what it says is checked. N:
no counterpart; such rows are listed, with what they would need.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import pytest

from rq_dlq.errors import PolicyError
from rq_dlq.policy import (
    DiscardingDeadLetterStrategy,
    Entry,
    ExpiryPolicy,
    IndividualDeadLetterStrategy,
    Pattern,
    PolicyMap,
    QueueSettings,
    SharedDeadLetterStrategy,
)
from rq_dlq.policy.presets import deliveries_of_both
from tests.cases import load
from tests.tables import each_row

Row: TypeAlias = dict[str, Any]
Unset = msgspec.UNSET

NO_COUNTERPART = {
    ("classic_match", "A.>.>"): "a pattern with > not at its end is refused, so it matches nothing",
    ("classic_dls", "enable_audit"): "a message is in a dead-letter queue once, by its id; it is no setting",
    (
        "artemis_validate",
        "auto-delete-queues",
    ): "a queue is nothing but its messages; there is none to delete",
}
GROUPS = [
    "artemis_match",
    "classic_match",
    "artemis_resolve",
    "classic_choose",
    "artemis_merge",
    "dlq_name",
    "expiry_clamp",
    "classic_dls",
    "classic_discard_plugin",
    "classic_both",
    "artemis_validate",
]


def rows(group: str, *, verdict: str = "SPD") -> list[Row]:
    return [row for row in load(group) if row["rq"][0] in verdict]


@each_row("group", GROUPS)
def test_verdicts(group: str) -> None:
    """What has no counterpart has a reason; the other rows are tests of their own."""
    for row in load(group):
        assert row["rq"][0] in "SPDN", row
        if row["rq"].startswith("N"):
            reasons = [
                reason
                for (owner, word), reason in NO_COUNTERPART.items()
                if owner == group and word in str(row)
            ]
            assert reasons or "(" in row["rq"], f"{row['id']}: say why it has no counterpart"


def names(row: Row) -> bool:
    return Pattern.parse(row["pattern"]).matches(row["name"])


def refused(row: Row) -> bool:
    return row.get("expect") == "error" or (row["rq"].startswith("D") and "ValueError" in row["rq"])


@each_row("row", rows("artemis_match") + rows("classic_match"))
def test_match(row: Row) -> None:
    if refused(row):
        with pytest.raises(PolicyError):
            Pattern.parse(row["pattern"])
    else:
        assert row["rq"] == "S"
        assert names(row) is row["expect"]


ANYTHING = Entry.of(max_in_flight=1)


def a_map(patterns: list[str]) -> PolicyMap:
    return PolicyMap(dict.fromkeys(patterns, ANYTHING))


def placed(verdict: str, resolved: list[str]) -> None:
    """Check a verdict such as `a.b.# first`, `a.b.# second`, `a.b.# before a.*.c`."""
    said = verdict.removeprefix("D: ").split(";")[0].split()
    where = {"first": 0, "second": 1, "third": 2, "last": len(resolved) - 1}
    assert said[0] in resolved
    if said[1] == "before":
        assert resolved.index(said[0]) < resolved.index(said[2])
    else:
        assert resolved[where[said[1]]] == said[0]


@each_row("row", rows("artemis_resolve"))
def test_resolve(row: Row) -> None:
    resolved = a_map(row["patterns"]).resolve(row["name"])
    assert resolved == a_map(row["patterns"][::-1]).resolve(row["name"])
    assert sorted(resolved) == sorted(row["expect"])
    if row["rq"] == "S":
        assert resolved == row["expect"]
    else:
        assert resolved != row["expect"]
        placed(row["rq"], resolved)


@each_row("row", rows("classic_choose"))
def test_choose(row: Row) -> None:
    chosen = next(iter(a_map(row["entries"]).resolve(row["name"])), None)
    better = row["rq"].removeprefix("D: ").split()[0] if row["rq"].startswith("D") else row["expect"]
    assert chosen == (better and Pattern.parse(better).text)


def of_artemis(said: Row) -> Entry:
    """Artemis' address settings as an entry. A limit on the size of a queue has no counterpart."""
    ours = {"delay": "initial_delay", "mult": "multiplier", "max_delay": "max_delay"}
    redelivery: dict[str, Any] = {ours[name]: said[name] for name in said if name in ours}
    for name in {"initial_delay", "max_delay"} & redelivery.keys():
        redelivery[name] /= 1000
    if "attempts" in said:
        redelivery["max_redeliveries"] = said["attempts"] - 1
    expiry: dict[str, Any] = {name: said[name] for name in ("no_expiry",) if name in said}
    if "expiry" in said:
        expiry |= {"name": said["expiry"]} if said["expiry"] else {"discard": True}
    return Entry.of(
        redelivery={"arithmetic": "artemis", **redelivery},
        dead_letter=SharedDeadLetterStrategy(said["dla"]) if "dla" in said else Unset,
        expiry=expiry or Unset,
    )


def as_artemis(settings: QueueSettings) -> Row:
    """A queue's settings by their names."""
    redelivery, expiry = settings.redelivery, settings.expiry
    assert redelivery.max_delay is not None
    return {
        "dla": settings.dead_name,
        "expiry": "" if expiry.discard else settings.expired_name,
        "no_expiry": expiry.no_expiry,
        "attempts": None if redelivery.max_redeliveries is None else redelivery.max_redeliveries + 1,
        "delay": round(redelivery.initial_delay * 1000),
        "mult": redelivery.multiplier,
        "max_delay": round(redelivery.max_delay * 1000),
    }


@each_row("row", rows("artemis_merge"))
def test_merge(row: Row) -> None:
    assert row["rq"][0] == "S"
    stored = PolicyMap({"a.b": of_artemis(row["strong"]), "a.#": of_artemis(row["weak"])})
    got = as_artemis(stored.settings("a.b"))
    expected = {name: value for name, value in row["expect"].items() if name != "max_size"}
    assert {name: got[name] for name in expected} == expected


@each_row("row", rows("dlq_name"))
def test_name(row: Row) -> None:
    said = {name: row[name] for name in ("prefix", "suffix") if name in row}
    queue = row.get("queue") or f"{row['topic']}.{row['subscriber']}"
    if row["rq"] == "P":
        entry = Entry.of(dead_letter=IndividualDeadLetterStrategy.activemq())
    elif "topic" in row:  # a group of consumers has a queue of its own, of that name
        entry = Entry.of(dead_letter=IndividualDeadLetterStrategy(prefix="ActiveMQ.DLQ.Topic."))
    elif row.get("kind") == "expiry":
        entry = Entry.of(expiry=ExpiryPolicy(**said), max_in_flight=None)
    else:
        entry = Entry.of(dead_letter=IndividualDeadLetterStrategy(**said))
    settings = PolicyMap({"#": entry}).settings(queue)
    assert (settings.expired_name if row.get("kind") == "expiry" else settings.dead_name) == row["expect"]


@each_row("row", rows("expiry_clamp"))
def test_clamp(row: Row) -> None:
    names = {"expiry_delay": "expiry_delay", "min": "min_expiry_delay", "max": "max_expiry_delay"}
    said: dict[str, Any] = {names[name]: row[name] / 1000 for name in names if row.get(name, -1) != -1}
    if refused(row):
        with pytest.raises(PolicyError):
            ExpiryPolicy(**said)
        return
    policy = ExpiryPolicy(**said, no_expiry=row.get("no_expiry", Unset))
    assert row["rq"] == "S"
    assert policy.clamp(row["ttl"]) == row["expect"]
    complete = PolicyMap({"#": Entry.of(expiry=policy, max_in_flight=1)}).settings("a").expiry
    assert complete.clamp(row["ttl"]) == row["expect"]


def fate(row: Row) -> str:
    """What becomes of the row's message: keep, discard, or (expired) a queue of its own."""
    kinds = {
        "shared": lambda said: SharedDeadLetterStrategy("ActiveMQ.DLQ", **said),
        "individual": lambda said: IndividualDeadLetterStrategy(**said),
        "discarding": lambda said: DiscardingDeadLetterStrategy(**said),
    }
    said = {name: row[name] for name in ("process_expired", "process_non_persistent") if name in row}
    wire = PolicyMap({"#": Entry.of(dead_letter=kinds[row["strategy"]](said))}).settings("a").wire()
    fates = msgspec.json.decode(wire["dead_letter"]) if "dead_letter" in wire else {}
    if row["message"].get("expired"):
        fate = fates.get("expired", "expired")
        return "keep" if fate == "dead" else str(fate)
    transient = row["message"].get("persistent", True) is False
    return str("discard" if transient and fates.get("transient") == "discard" else fates.get("dead", "keep"))


@each_row("row", rows("classic_dls"))
def test_strategy(row: Row) -> None:
    message, kept = row["message"], fate(row)
    if "on_queue" in message:  # a dead-letter queue has no dead-letter queue: what fails there stays there
        stored = PolicyMap({"#": Entry.of(dead_letter=SharedDeadLetterStrategy(message["on_queue"]))})
        assert stored.settings(message["on_queue"]).dead_name != message["on_queue"]
        assert row["rq"].startswith("D: stays parked")
    elif message.get("seen"):  # that a message is there once is the scripts' business, not a setting's
        assert kept == "keep"
    elif row["rq"] == "S":
        assert (kept == "keep") is row["sent"]
    elif message.get("expired"):
        assert row["rq"].startswith("D: expired go to the expiry destination")
        assert kept == "expired"
    else:
        assert row["rq"].startswith("D: every message is dead-lettered")
        assert kept == "keep"


@each_row("row", rows("classic_discard_plugin"))
def test_discard(row: Row) -> None:
    only = row.get("drop_only", Unset)
    stored = PolicyMap({"#": Entry.of(dead_letter=DiscardingDeadLetterStrategy(only=only))})
    settings = stored.settings(row["queue"])
    dropped = isinstance(settings.dead_letter, DiscardingDeadLetterStrategy)
    assert dropped is ("dead_letter" in settings.wire())
    if row["rq"] == "S":
        assert dropped is row["dropped"]
    else:
        assert row["rq"].startswith("D: false")
        assert dropped is False


@each_row("row", rows("classic_both"))
def test_both(row: Row) -> None:
    limit = float("inf") if row["deliveries"] == "inf" else row["deliveries"]
    got = deliveries_of_both(row["client_max_redeliveries"], row["broker_max_redeliveries"])
    assert (float("inf") if got is None else got) == limit


@each_row("client", range(8))
@each_row("broker", range(8))
def test_both_as_a_machine(client: int, broker: int) -> None:
    """Counted as the client and the plugin do it, one delivery after the other."""
    deliveries = sent_with = 0
    while True:
        counter = sent_with
        while counter <= client or counter == sent_with:
            deliveries += 1
            counter += 1
        if sent_with >= broker:
            break
        sent_with += 1
    assert deliveries_of_both(client, broker) == deliveries


def test_both_without_a_limit() -> None:
    assert [deliveries_of_both(*limits) for limits in ((-1, 3), (3, -1), (None, 3), (3, None))] == [None] * 4
    with pytest.raises(PolicyError, match="the broker's maximumRedeliveries is -2"):
        deliveries_of_both(0, -2)
