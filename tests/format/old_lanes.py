"""Turns what this version wrote of keys and dependencies into what 0.1.0 had written, with its lanes."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from rq_dlq._keys import QueueKeys
from rq_dlq.values import record as records
from rq_dlq.values.key import WIDTH, Of, lane_of

BLOCKED = 1 << 43


def old_lane_of(text: str, of: Of = "key") -> int:
    """The number of the lane by 0.1.0."""
    digest = blake2b(text.encode(), digest_size=WIDTH, person=f"rq_dlq {of}".encode()[:16]).digest()
    return int.from_bytes(digest, "big") & ((1 << 46) - 1)


def old_record(record: bytes, old: dict[int, int]) -> bytes:
    """A record with the lanes of 0.1.0, which are noted by those of this version."""
    fields = records.content_of(record).fields
    kinds: tuple[tuple[int, Of], ...] = ((records.KEY, "key"), (records.DEPENDENCY, "dependency"))
    for number, of in kinds:
        if number in fields:
            text = fields[number][WIDTH:].decode()
            old[lane_of(text, of)] = old_lane_of(text, of)
            anew = old_lane_of(text, of).to_bytes(WIDTH, "big") + fields[number][WIDTH:]
            assert record.count(fields[number]) == 1
            record = record.replace(fields[number], anew)
    return record


def as_old(raw: Any, keys: QueueKeys, *texts: str) -> None:
    """Make a queue look as if 0.1.0 had written it; with keys of which no message is there any more."""
    old = {lane_of(text): old_lane_of(text) for text in texts}
    for message_id, record in raw.hgetall(keys["messages"]).items():
        raw.hset(keys["messages"], message_id, old_record(record, old))
    for text in raw.hvals(keys["special"]):
        lane = json.loads(text)
        old[lane_of(lane["name"], lane["of"])] = old_lane_of(lane["name"], lane["of"])
    for message_id, state in raw.hgetall(keys["states"]).items():
        raw.hset(keys["states"], message_id, old_state(state.decode(), old))
    raw.delete(keys["former_seats"], keys["former_lanes"])
    _renumber(raw, keys, old)
    if raw.hget(keys["settings"], "gated") == b"special":
        raw.hset(keys["settings"], "gated", 1)
    else:
        raw.hdel(keys["settings"], "gated")
    raw.hdel(keys["settings"], "probing")
    raw.delete(keys["seats"], keys["special"])


def old_state(state: str, old: dict[int, int]) -> str:
    """A state with the words of 0.1.0 for the lanes of a long record."""
    head, said, rest = state.partition(" lanes=")
    if not said:
        return state
    lanes, *more = rest.split(" ")
    both = zip(("lane", "needs"), lanes.split("/"), strict=True)
    return " ".join([head, *(f"{word}={old[int(lane)]}" for word, lane in both if lane != "-"), *more])


def _renumber(raw: Any, keys: QueueKeys, old: dict[int, int]) -> None:
    for member, score in raw.zrange(keys["seats"], 0, -1, withscores=True):
        raw.zadd(keys["former_seats"], {member: old[int(score)] + score % 1})
    for row, score in raw.zrangebyscore(keys["scheduled"], BLOCKED, "+inf", withscores=True):
        raw.zadd(keys["scheduled"], {row: BLOCKED + old[int(score) - BLOCKED] + score % 1})
    for number, text in raw.hgetall(keys["special"]).items():
        raw.hset(keys["former_lanes"], str(old[int(number)]), text)
    for index in ("gates", "slots"):
        for member, score in raw.zrange(keys[index], 0, -1, withscores=True):
            if member.isdigit():
                raw.zrem(keys[index], member)
                raw.zadd(keys[index], {str(old[int(member)]): score})


def index_of(raw: Any, keys: QueueKeys) -> dict[str, dict[str, float]]:
    """Where everything is: what must be the same before and after."""
    found = {
        name: {member.hex(): score for member, score in raw.zrange(keys[name], 0, -1, withscores=True)}
        for name in ("ready", "scheduled", "seats", "gates", "slots")
    }
    return found | {
        "special": {name.decode(): text.decode() for name, text in raw.hgetall(keys["special"]).items()}
    }
