"""The invariants, checked on the raw keys of a queue: what must hold after every step."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rq_dlq._keys import QueueKeys

NOTHING_LEFT = {"counters", "policy"}  # what may stay when a queue is empty


def audit(raw: Any, home: str, namespace: str = "rq") -> Counter[str]:
    """Check every key of a queue against the others; how many messages are in each state.

    Raises:
        AssertionError: a message is in two places or in none, a lease or an index entry is left behind, or
            the sums do not add up (I1, I6, I13).
    """
    keys = QueueKeys(namespace, home)
    messages = {key.decode(): value for key, value in raw.hgetall(keys["messages"]).items()}
    states = {key.decode(): value.decode() for key, value in raw.hgetall(keys["states"]).items()}
    assert states.keys() <= messages.keys(), "a state without a message"
    history = {key.decode() for key in raw.hkeys(keys["history"])}
    assert history <= messages.keys(), "a history without a message"

    places: dict[str, str] = {}
    for place in ("ready", "scheduled", "dead", "expired"):
        for member in raw.zrange(keys[place], 0, -1):
            message_id = member[8 if member[0] < 16 else 2 :].decode()
            assert message_id not in places, f"{message_id} is {places.get(message_id)} and {place}"
            places[message_id] = place
    held: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for message_id in messages:
        state = states.get(message_id, "live - 0 0 0 0 0 0 0 0").split(" ")
        assert len(state) == 10, state
        part = state[0].partition("/")[0]
        if state[1].startswith("+"):
            assert message_id not in places, f"{message_id} is leased and {places.get(message_id)}"
            held[state[1][1:]] += 1
            counts["leased"] += 1
        else:
            assert message_id in places, f"{message_id} is nowhere: {state}"
            place = places[message_id]
            assert part == {"ready": "live", "scheduled": "live"}.get(place, place), (part, place)
            counts[place] += 1
    assert places.keys() <= messages.keys(), "an index entry without a message"

    leases = {token.decode() for token in raw.zrange(keys["leases"], 0, -1)}
    claims = {key.decode(): value for key, value in raw.hgetall(keys["claims"]).items()}
    assert leases == set(held), f"leases {leases} for what is held under {set(held)}"
    assert claims.keys() == leases | {f"{token}:held" for token in leases}, "claims and leases differ"
    for token, count in held.items():
        assert int(claims[f"{token}:held"]) == count, f"{token} holds {count}: {claims}"
    expiring = {key.decode() for key in raw.zrange(keys["expiring"], 0, -1)}
    waiting = {"ready", "scheduled"}
    assert all(places.get(key) in waiting for key in expiring), "expiry of what does not wait"

    totals = {key.decode(): int(value) for key, value in raw.hgetall(keys["counters"]).items()}
    gone = totals.get("acked", 0) + totals.get("purged", 0)
    assert totals.get("sent", 0) == gone + sum(counts.values()), f"I1: {totals} and {counts}"
    if not messages:
        left = {name for name, key in keys.by_name.items() if raw.exists(key) and raw.ttl(key) < 0}
        assert left <= NOTHING_LEFT, f"left behind in an empty queue: {left - NOTHING_LEFT}"
    return counts
