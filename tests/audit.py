"""The invariants, checked on the raw keys of a queue: what must hold after every step."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha1
from typing import Any
from urllib.parse import unquote

from rq_dlq import _keys
from rq_dlq._keys import QueueKeys
from rq_dlq.core.schedules.schedule import Record
from rq_dlq.policy.fields import WRITTEN

# What may stay when a queue is empty.
NOTHING_LEFT = {
    *("counters", "settings", "committed", "outcomes", "schedules", "ticks"),
    *("redrives", "redriving", "audit", "gates", "former_seats", "former_lanes", "special"),
    "gathers",  # while a gather is open; see check_gathers
}
OF_CALLS = {"claims", "leases", "seats"}  # while one of a cancelled message runs
SETTINGS = {
    *WRITTEN,
    "version",
    "declared",
    "paused",
    "paused_until",
    "opening",
    "gated",
    "probing",
    "limited",
    "narrowed",
    "cancelling",
    "kept",
    "gathering",
}
GONE = ("acked", "purged", "cancelled", "discarded", "moved")
TOTALS = {
    "birth", "rate_until", "rate_spent", "sent", "nacked", "lapsed", "released", "passed_on", "redriven",
    "exhausted", "poison", "unprocessable", "expired", "put_off", "returned", "known", "reindexed", "mutes",
    "results_dropped", "again", "replaced", *GONE,
}  # fmt: skip
EXPIRES_ALONE = (
    *("wake", "alarm", "acked_ids", "cleared", "grouped", "reindexed", "tended", "strikes", "muted"),
    *("results", "result_times", "slots", "runs", "failures", "streams"),
)
WAITING = ("ready", "scheduled")
HASHES = (
    *("messages", "states", "history", "claims", "counters", "settings", "schedules", "special"),
    "results",
    "again",
)
SORTED = (
    *(*WAITING, "dead", "expired", "expiring", "leases", "committed", "ticks", "groups", "seats"),
    *("gates", "result_times", "gathers"),
)
EXPIRES, BAND, LONG = 0x10, 1 << 42, 2_048  # lua/record.lua, order.lua
BLOCKED, PASS = 1 << 43, "\x01"  # lua/lanes.lua
STATE = 10  # words of a state


def audit(raw: Any, family: str, namespace: str = "rq") -> Counter[str]:
    """Check the names of all keys, then as `audit_queue`."""
    keys = QueueKeys(namespace, family)
    read = Snapshot(raw, [keys])
    check_names(read, namespace)
    return audit_queue(read, keys)


def audit_all(raw: Any, namespace: str = "rq") -> None:
    """Check the names of all keys, and each queue as `audit_queue`."""
    queues = [QueueKeys(namespace, family.decode()) for family in raw.smembers(f"{namespace}:queues")]
    read = Snapshot(raw, queues)
    check_names(read, namespace)
    for keys in queues:
        audit_queue(read, keys)


def audit_queue(raw: Snapshot, keys: QueueKeys) -> Counter[str]:
    """Check every key of a queue against the others; how many messages are in each state.

    Raises:
        AssertionError: a message is in two places or in none, or not where its state says; a lease, an index
            entry or a key is left behind; the sums do not add up (I1, I6, I7, I8, I13).
    """
    messages = {key.decode(): value for key, value in raw.hash(keys["messages"]).items()}
    states = {key.decode(): value.decode() for key, value in raw.hash(keys["states"]).items()}
    assert states.keys() <= messages.keys(), "a state without a message"
    history = {key.decode() for key in raw.hash(keys["history"])}
    assert history <= messages.keys(), "a history without a message"

    places: dict[str, tuple[str, bytes, float]] = {}
    for place in (*WAITING, "dead", "expired"):
        for member, score in raw.sorted(keys[place]).items():
            message_id = member[8 if member[0] < 16 else 2 :].decode()
            assert message_id not in places, f"{message_id} is {places.get(message_id)} and {place}"
            places[message_id] = (place, member, score)
    assert places.keys() <= messages.keys(), "an index entry without a message"
    expiring = {key.decode(): score for key, score in raw.sorted(keys["expiring"]).items()}
    held: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for message_id, record in messages.items():
        state = states.get(message_id, "live - 0 0 0 0 0 0 0 0").split(" ")
        check_head(record, state)
        in_group = any(word.startswith("group=") for word in state[STATE:])
        assert not in_group or state[0].startswith("dead"), (
            f"{message_id} has a group and is not dead: {state}"
        )
        if state[1].startswith("+"):
            assert message_id not in places, f"{message_id} is leased and {places.get(message_id)}"
            held[state[1][1:]] += 1
            counts["leased"] += 1
        else:
            assert message_id in places, f"{message_id} is nowhere: {state}"
            counts[places[message_id][0]] += 1
            check_place(message_id, record, state, places[message_id])
        waits = message_id in places and places[message_id][0] in WAITING
        expires = expiry_of(record, state) if waits else None
        assert expiring.pop(message_id, None) == expires, f"{message_id} and its time to live"
    assert not expiring, f"a time to live of nothing: {expiring}"
    check_groups(
        raw,
        keys,
        {member: states.get(name, "") for name, (place, member, _) in places.items() if place == "dead"},
    )

    calls = cancelled_calls(raw, keys)
    check_leases(raw, keys, held + calls)
    check_seats(raw, keys, messages)
    check_results(raw, keys)
    counters = raw.hash(keys["counters"])
    totals = {key.decode(): int(value) for key, value in counters.items() if key != b"rate_until"}
    assert totals.keys() <= TOTALS, f"unknown totals: {totals.keys() - TOTALS}"
    gone = sum(totals.get(name, 0) for name in GONE)
    assert totals.get("sent", 0) == gone + sum(counts.values()), f"I1: {totals} and {counts}"
    check_committed(raw, keys)
    check_gathers(raw, keys, messages, states)
    check_schedules(raw, keys)
    settings = {key.decode() for key in raw.hash(keys["settings"])}
    assert settings <= SETTINGS, f"unknown settings: {settings - SETTINGS}"
    for name in EXPIRES_ALONE:
        assert raw.ttl(keys[name]) != -1, f"{name} does not go by itself"
    if not messages:
        left = {name for name, key in keys.by_name.items() if raw.ttl(key) == -1}
        left -= NOTHING_LEFT | (OF_CALLS if calls else set())
        assert not left, f"left behind in an empty queue: {left}"
    return counts


def cancelled_calls(raw: Snapshot, keys: QueueKeys) -> Counter[str]:
    """How many calls of messages that were cancelled keep their seats or places, by their tokens."""
    seats = [name.decode() for name in raw.sorted(keys["seats"])]
    calls = {name[1:] for name in seats if name.startswith(CANCELLED)}
    return Counter(call.partition(" ")[0] for call in calls)


def check_leases(raw: Snapshot, keys: QueueKeys, held: Counter[str]) -> None:
    """Each lease is of a claim that holds something, and knows how much."""
    leases = {token.decode() for token in raw.sorted(keys["leases"])}
    claims = {key.decode(): value for key, value in raw.hash(keys["claims"]).items()}
    assert leases == set(held), f"leases {leases} for what is held under {set(held)}"
    assert claims.keys() == leases | {f"{token}:held" for token in leases}, "claims and leases differ"
    for token, count in held.items():
        assert int(claims[f"{token}:held"]) == count, f"{token} holds {count}: {claims}"


class Snapshot:
    """The keys of queues, read in two round trips: each test is audited.

    Attributes:
        ttls: of each key of the server, seconds.
    """

    def __init__(self, raw: Any, queues: Sequence[QueueKeys]) -> None:
        names, pipeline = raw.keys("*"), raw.pipeline(transaction=False)
        for name in names:
            pipeline.ttl(name)
        decoded = [name.decode(errors="surrogateescape") for name in names]
        there = {*decoded}
        held = [(keys[name], name) for keys in queues for name in (*HASHES, *SORTED) if keys[name] in there]
        for key, name in held:
            if name in HASHES:
                pipeline.hgetall(key)
            else:
                pipeline.zrange(key, 0, -1, withscores=True)
        replies = pipeline.execute()
        self.ttls: dict[str, int] = dict(zip(decoded, replies, strict=False))
        self._held = {key: reply for (key, _), reply in zip(held, replies[len(names) :], strict=True)}

    def hash(self, key: str) -> dict[bytes, bytes]:
        """The fields of a hash."""
        return dict(self._held.get(key, {}))

    def sorted(self, key: str) -> dict[bytes, float]:
        """The scores of a sorted set by its members, in its order."""
        return dict(self._held.get(key, {}))

    def ttl(self, key: str) -> int:
        """As Redis says it."""
        return self.ttls.get(key, -2)


def expiry_of(record: bytes, state: Sequence[str]) -> int | None:
    """When a waiting message expires; what was redriven has only the time to live that it was given then."""
    if state[8] != "0":
        given = [int(word.removeprefix("expires=")) for word in state[10:] if word.startswith("expires=")]
        return given[0] if given else None
    return int.from_bytes(record[8:14]) if record[7:] and record[7] & EXPIRES else None


def check_head(record: bytes, state: list[str]) -> None:
    """The state of a message with a long record has its head, unless an earlier version sent it."""
    assert len(state) >= STATE, state
    heads = [word for word in state[STATE:] if word.startswith("head=")]
    if heads and heads[-1].endswith(f"/{len(record)}"):  # else someone else wrote the record
        expires = int.from_bytes(record[8:14]) if record[7] & EXPIRES else 0
        head = f"head={int.from_bytes(record[:7])}/{record[7]}/{expires}/{len(record)}"
        assert (len(record) > LONG, heads) == (True, [head]), state


def check_groups(raw: Snapshot, keys: QueueKeys, dead: dict[bytes, str]) -> None:
    """Each dead letter has a row in its group, and nothing else has one (I16)."""
    expected = set[bytes]()
    for member, state in dead.items():
        words = state.split(" ")
        group = next((word for word in words[STATE:] if word.startswith("group=")), "group=")
        assert group in words, f"a dead letter without a group: {state}"
        name = group.removeprefix("group=").ljust(12).encode()
        expected.add(name + int(words[2]).to_bytes(6, "big") + member)
    rows = raw.sorted(keys["groups"])
    assert rows.keys() == expected, f"groups {rows}, not {expected}"
    assert not any(rows.values()), "the groups are not in the order of their bytes"


def lanes_in(record: bytes) -> tuple[int | None, int | None]:
    """The lanes of a message's key and of its dependency, by their texts; None: it has none."""
    lanes: dict[int, int] = {}
    if record[7:] and record[7] & 0x20:
        block = record[16 if record[7] & EXPIRES else 10 :]
        for field, of in ((1, b"key"), (2, b"dependency")):
            if block[:1] == bytes((field,)):
                end = 3 + int.from_bytes(block[1:3])
                digest = sha1(of + b"\0" + block[9:end], usedforsecurity=False).digest()
                lanes[field] = int.from_bytes(digest[:6]) % (1 << 46)
                block = block[end:]
    return lanes.get(1), lanes.get(2)


def check_seats(raw: Snapshot, keys: QueueKeys, messages: Mapping[str, bytes]) -> None:
    """Each seat, and each pass, is one of a message that is there, in its lane."""
    seats = {name.decode(): int(lane) for name, lane in raw.sorted(keys["seats"]).items()}
    for name in [name for name in seats if name.startswith(CANCELLED)]:
        lane, token = seats.pop(name), name[1:].partition(" ")[0]
        assert (lane == PLACES) == name.startswith(PLACE), f"{name!r} with the score {lane}"
        assert token.encode() in raw.sorted(keys["leases"]), f"a cancelled call {token} has no lease"
    own = {name: name.removeprefix(PASS) for name in seats}
    expected = {name: lanes_in(messages[it])[it != name] for name, it in own.items() if it in messages}
    assert seats == expected, f"seats {seats}, not {expected}"
    gates = raw.sorted(keys["gates"]).keys()
    passes = {name for name in gates if name.startswith(PASS.encode())}
    assert gates - passes <= raw.hash(keys["special"]).keys(), "a gate of a lane of which nothing is known"
    assert passes <= raw.sorted(keys["seats"]).keys(), "the end of a pass that is none"


def check_place(message_id: str, record: bytes, state: list[str], stands: tuple[str, bytes, float]) -> None:
    """A message stands where its state and its record say (I8)."""
    part, (place, member, score) = state[0].partition("/")[0], stands
    assert part == ("live" if place in WAITING else place), f"{message_id} is {part}, and stands in {place}"
    if len(record) < (14 if record[7:] and record[7] & EXPIRES else 8) or record[7] % 16 > 9:
        return  # someone else damaged the record
    birth, priority = int.from_bytes(record[:7]), min(record[7] % 16, 9)
    due = int(state[2]) or birth // 4096
    order = bytes((9 - priority,)) + record[:7]
    lanes = [lane for lane in lanes_in(record) if lane is not None]
    if due == birth // 4096 and not lanes:
        order = bytes((16 + birth % 4096 // 256, birth % 256))
    if lanes and (score // 1 - BLOCKED in lanes or (place == "ready" and score // BAND == 9 - priority)):
        due = score % BAND if place == "ready" else due  # type: ignore[assignment]  # it was let in later
        if place == "scheduled":
            score = due  # it waits for its seat
    elif lanes and place == "scheduled" and due < score < BLOCKED:
        due = score  # type: ignore[assignment]  # it waits with its seat, for a slot of its key
    expected = (order + message_id.encode(), (9 - priority) * BAND + due if place == "ready" else due)
    assert (member, score) == expected, f"{message_id} stands in {place} at {(member, score)}, not {expected}"


def check_results(raw: Snapshot, keys: QueueKeys) -> None:
    """Each result has its time, and the other way round; their bytes add up."""
    results = {key.decode(): value for key, value in raw.hash(keys["results"]).items()}
    total = int(results.pop("", b"0"))
    times = {key.decode() for key in raw.sorted(keys["result_times"])}
    assert results.keys() == times, f"results {results.keys()}, and times of {times}"
    taken = sum(2 * len(name.encode()) + len(end) + 200 for name, end in results.items())
    assert total == taken, f"results take {taken} bytes, and {total} are noted"
    births = [name for name in results if name.endswith("\1")]
    assert not births or b"kept" in raw.hash(keys["settings"]), f"no send looks for {births}"


def check_committed(raw: Snapshot, keys: QueueKeys) -> None:
    """What a job has committed is there until it is moved, and does not go by itself; what is staged does."""
    prefix = keys.stage("", "")[:-1]
    stays = {key for key, ttl in raw.ttls.items() if key.startswith(prefix) and ttl == STAYS}
    committed = {prefix + member.decode().replace("\n", ":") for member in raw.sorted(keys["committed"])}
    assert stays == committed, f"committed {committed}, but {stays} stay"


def check_schedules(raw: Snapshot, keys: QueueKeys) -> None:
    """Each schedule that is not paused has an entry in the index, and nothing else has one."""
    records = {name: Record.read(text) for name, text in raw.hash(keys["schedules"]).items()}
    running = {name: record.due for name, record in records.items() if not record.paused}
    assert raw.sorted(keys["ticks"]) == running, "schedules and ticks differ"


def check_again(raw: Snapshot, keys: QueueKeys, states: Mapping[str, str]) -> None:
    """One more run is asked for of leased messages alone, whose states say so in a way that an ack finds."""
    asked = {key.decode() for key in raw.hash(keys["again"])}
    said = {name for name, state in states.items() if " again=" in state}
    assert asked == said, f"one more run of {asked}, and states of {said}"
    for name, state in states.items():
        words = [word.partition("=")[0] for word in state.split(" ")[STATE:]]
        assert name not in said or state.startswith("live +"), f"{name} is not in work: {state}"
        if {"again", "unique"} & {*words}:
            assert "result" in words, f"no ack finds the words of {name}: {state}"


def check_gathers(
    raw: Snapshot, keys: QueueKeys, messages: Mapping[str, bytes], states: Mapping[str, str]
) -> None:
    """Each row is of a gather that is there; each `then` that waits has one; an open child is there."""
    check_again(raw, keys, states)
    rows = {name.decode(): score for name, score in raw.sorted(keys["gathers"]).items()}
    numbers = {name: score // 1 for name, score in rows.items() if score >= BLOCKED and " " not in name}
    assert len({*numbers.values()}) == len(numbers), f"two gathers have one number: {numbers}"
    for name, score in rows.items():
        gather = name.partition(" ")[0] if score >= BLOCKED else name[1:]
        assert gather in numbers, f"{name} is of no gather: {numbers}"
        assert score < BLOCKED or score // 1 == numbers[gather], f"{name} has the number of another: {score}"
    for gather, number in numbers.items():
        assert f"@{gather}" in rows, f"nobody looks at {gather}"
        if gather.startswith("#"):
            then = unquote(gather[1:])
            assert then in messages, f"{gather} has no `then`"
            assert f" gather={THEN}" in states[then], states[then]
            continue
        open_ones = {
            name.partition(" ")[2]
            for name, score in rows.items()
            if score // 1 == number and 1 <= score % 1 * 16 < 2
        } - {""}
        for child in open_ones:
            assert child in messages, f"{child} of {gather} is gone, and open"
            assert f" gather={gather}" in states[child], states[child]
        ended = rows[gather] % 1 and not open_ones
        assert bool(ended) == (rows[f"@{gather}"] == 0), f"{gather} is to be carried, or not: {rows}"
    carries = any(score == 0 for score in rows.values())
    assert carries == (b"gathering" in raw.hash(keys["settings"])), f"claims are told, or not: {rows}"


THEN = "then"
PLACE, PLACES = "\3", -1  # lua/cancel.lua, lanes.lua
CANCELLED = ("\2", PLACE)  # before the seat, and the place, of a call whose message was cancelled


def check_names(raw: Snapshot, namespace: str) -> None:
    """No key that nobody knows of, and what remembers a call goes by itself (I13)."""
    shared = {at(namespace) for at in SHARED}
    for key, ttl in raw.ttls.items():
        if key in shared or not key.startswith(f"{namespace}:"):
            continue
        name = key.removeprefix(f"{namespace}:")
        if name.startswith("cancelled:"):
            assert ttl != STAYS, f"{key} stays for ever"
            continue
        of_a_queue = re.fullmatch(r"\{[^{}]+\}(?:\..+?)?:(\w+|(?:sender|stage|job|stream|redrive):.+)", name)
        assert of_a_queue, f"{key} is no queue's"
        stays = ("stage:", "sender:outbox.")  # see check_committed, and rq_dlq/core/sending/noted.py
        known = of_a_queue[1] in IN_REDIS or of_a_queue[1].startswith(stays)
        assert known or ttl != STAYS, f"{key} is unknown, or stays for ever"


IN_REDIS = {_keys.STORED.get(name, name) for name in _keys.NAMES}
STAYS = -1  # says Redis of a key that does not expire; of one that has meanwhile, -2
SHARED = (_keys.queues, _keys.policies, _keys.aliases, _keys.processes, _keys.audit)
