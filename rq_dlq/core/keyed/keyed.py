"""The lanes of a queue."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.core.keyed import calls, outages
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.queue import check_limit, only_live
from rq_dlq.core.queues.who import name_of
from rq_dlq.core.steps.step import Pipeline, Steps, chunks, seed
from rq_dlq.errors import UnprocessableMessage
from rq_dlq.values import outage
from rq_dlq.values import record as records
from rq_dlq.values.codec import NO_JSON
from rq_dlq.values.failure import moment
from rq_dlq.values.key import KeyStats, lane_of, packed
from rq_dlq.values.message import Received
from rq_dlq.values.state import read_state

if TYPE_CHECKING:
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.policy.per_key import PerKey
    from rq_dlq.values.dependency import DependencyStats
    from rq_dlq.values.message import MessageRow

CANCELLED = "\2"  # precedes the seat of a call whose message was cancelled
SAMPLED = 200  # blocked messages by which lanes are found
LOOKED_AT = 5  # of these lanes, the longest
NEXT = "the next message of its key is delivered"
BY_RATE = f"{NEXT} when its rate allows"


def longest(queue: QueueState[Any], limit: int, *, exact: bool) -> Steps[list[KeyStats]]:
    """The longest lanes, the longest first.

    Raises:
        InvalidInput: the limit is not valid, or the queue is a dead-letter or expiry queue.
    """
    check_limit(limit, optional=False)
    return behind(queue, lambda _: _longest(queue, limit, exact=exact))


def _longest(queue: QueueState[Any], limit: int, *, exact: bool) -> Steps[list[KeyStats]]:
    only_live(queue, "look for keys of")
    lanes = yield from (_all if exact else _some)(queue)
    found: list[KeyStats] = []
    for lane in (yield from _by_length(queue, lanes))[:limit]:
        found += [(yield from _of_lane(queue, lane, None))]
    return found


def _by_length(queue: QueueName, lanes: list[int]) -> Steps[list[int]]:
    """The lanes of keys among these, the longest first."""
    found: list[tuple[int, int]] = []
    for part in chunks(lanes):
        reads = [read(queue.keys, lane) for lane in part for read in (calls.blocked, calls.special)]
        replies: list[Any] = yield Pipeline(reads)
        specials = zip(part, replies[::2], replies[1::2], strict=True)
        found += [(size, lane) for lane, size, special in specials if special is None or special.of == "key"]
    return [lane for _, lane in sorted(found, reverse=True)]


def of_key(queue: QueueState[Any], key: str) -> Steps[KeyStats]:
    """The lane of a key.

    Raises:
        InvalidMessage: this cannot be a key.
        InvalidInput: the queue is a dead-letter or expiry queue.
    """
    packed(key)
    return behind(queue, lambda _: _of_key(queue, key))


def _of_key(queue: QueueState[Any], key: str) -> Steps[KeyStats]:
    only_live(queue, "look for keys of")
    return (yield from _of_lane(queue, lane_of(key), key))


def _all(queue: QueueName) -> Steps[list[int]]:
    lanes: list[int] = []
    lane: int | None = yield calls.lane_after(queue.keys, -1)
    while lane is not None:
        lanes.append(lane)
        lane = yield calls.lane_after(queue.keys, lane)
    return lanes


def _some(queue: QueueName) -> Steps[list[int]]:
    count, size = yield Pipeline([calls.blocked(queue.keys), page_calls.size(queue.keys, "scheduled")])
    drawn = random.Random(seed())  # noqa: S311 - a sample, guards nothing
    ranks = sorted(drawn.sample(range(max(0, size - count), size), min(SAMPLED, count, size)))
    reads = [calls.lane_at(queue.keys, rank) for rank in ranks]
    lanes: list[int | None] = (yield Pipeline(reads)) if reads else []
    return [lane for lane in dict.fromkeys(lanes) if lane is not None]


def _of_lane(queue: QueueState[Any], lane: int, key: str | None) -> Steps[KeyStats]:
    reads = (calls.blocked, calls.seats, calls.head, calls.holders, calls.slot, calls.special)
    blocked, seats, head, holding, slot, special, rule = yield Pipeline(
        [*(read(queue.keys, lane) for read in reads), calls.rule(queue.keys)]
    )
    cancelled = dict(_call_of(member) for member in holding if member.startswith(CANCELLED))
    holding = [member for member in holding if not member.startswith(CANCELLED)]
    ids = [*holding, *([head] if head else [])]
    page: Page | None = (yield page_calls.browse(queue.keys, ids=ids)) if ids else None
    rows = {row.id: row for row in (page.rows() if page else [])}
    tokens = {message_id: calls.token_of(rows.get(message_id)) for message_id in holding} | cancelled
    asked = [calls.consumer(queue.keys, token) for token in tokens.values() if token]
    names = iter((yield Pipeline(asked)) if asked else [])
    held_by = tuple((message_id, _name(next(names)) if token else "") for message_id, token in tokens.items())
    for row in rows.values() if key is None else ():
        key = _key_of(queue, row) or key
    limit = special.limit if special and rule and rule.limit else None  # lua/lanes.lua, limit_of
    found = KeyStats(key or "", blocked, seats, head, held_by, limit)
    if slot or (special and special.paused):
        now, _ = yield queue_calls.stats(queue.keys, queue.name)
        if slot and slot > now:  # lua/rates.lua, slot_of
            found = replace(found, next_at=moment(math.ceil(slot)))
        if special and special.of == "key" and special.is_paused(now):
            found = replace(found, paused=True, until=special.until, paused_by=name_of(special.by))
    return found


def _call_of(member: str) -> tuple[str, str]:
    """The id and the token of a call whose message was cancelled (lua/cancel.lua)."""
    token, _, message_id = member.removeprefix(CANCELLED).partition(" ")
    return message_id, token


def _name(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except NO_JSON:
        return ""


def _key_of(queue: QueueState[Any], row: MessageRow) -> str | None:
    return said(Received(row, queue.codec, queue.name))[0]


def said(message: Received[Any]) -> tuple[str | None, str | None]:
    """The key and the dependency of a message; None also if it cannot be read."""
    try:
        return message.key, message.dependency
    except UnprocessableMessage:
        return None, None


def why_blocked(queue: QueueState[Any], row: MessageRow, now: int) -> Steps[tuple[str, str]]:
    """Why a message is blocked at a time (milliseconds), and what happens next; empty: it is not blocked."""
    message = Received(row, queue.codec, queue.name)
    key, dependency = said(message)
    if (key is None and dependency is None) or message.part != "live" or row.lease_until:
        return "", ""
    place = bytes((9 - message.priority,)) + row.record[records.BIRTH] + row.id.encode()
    if dependency is not None:
        number = lane_of(dependency, "dependency")
        score, found = yield from _both(queue, place, dependency)
        if found.open or score in {calls.BLOCKED + number, calls.BLOCKED + number + calls.TRIED}:
            at = moment(now)
            why = ", ".join(filter(None, (outage.why(found, at), outage.hanging(found, at))))
            return f"it waits for {dependency}: {why}", _let_through(found)
    if key is not None and (paused := (yield from outages.paused_key(queue, key))):
        return f"its key {key} is {paused}", "it waits until then"
    return (yield from _behind(queue, place, key, message.due, now)) if key is not None else ("", "")


def _let_through(found: DependencyStats) -> str:
    """When a message that waits for a dependency is delivered, in words."""
    if found.paused:
        return "it is delivered after the pause, as others succeed"
    return "it is delivered as a test, or as others succeed"


def held_up(queue: QueueState[Any], now: int, patience: int) -> Steps[list[str]]:
    """Which of the longest lanes have a message that has been due for so long (milliseconds), and why."""
    said: list[str] = []
    lanes = yield from _some(queue)
    for lane in (yield from _by_length(queue, lanes))[:LOOKED_AT]:
        blocked, head = yield Pipeline([calls.blocked(queue.keys, lane), calls.head(queue.keys, lane)])
        page: Page | None = (yield page_calls.browse(queue.keys, ids=[head])) if head else None
        for row in page.rows() if page else []:
            message = Received(row, queue.codec, queue.name)
            key = _key_of(queue, row)
            if key is None or lane_of(key) != lane or message.due > now - patience:
                continue  # it waits for its dependency (`outages`), or not for long
            why, _ = yield from why_blocked(queue, row, now)
            behind = f", {blocked - 1:,} behind it" if blocked > 1 else ""
            at = f"{moment(message.due):%Y-%m-%d %H:%M} UTC"
            said += [f"{head}, due since {at}{behind}: {why}"] if why else []
    return said


def _both(queue: QueueState[Any], place: bytes, name: str) -> Steps[tuple[float | None, DependencyStats]]:
    """The position of a row in `scheduled`, and the state of its dependency."""
    score: float | None = yield calls.place_in_lane(queue.keys, place)
    return score, (yield from outages.of_dependency(queue, name))


def _behind(queue: QueueState[Any], place: bytes, key: str, due_at: int, now: int) -> Steps[tuple[str, str]]:
    """What is in front of a row in the lane of its key, and what follows; empty: it does not wait there."""
    keys, lane = queue.keys, lane_of(key)
    reads = (calls.place_in_lane(keys, place), calls.rank(keys, place), calls.before(keys, lane))
    score, rank, before, rule = yield Pipeline([*reads, calls.rule(keys)])
    if score is None:
        return "", ""
    found: KeyStats = yield from _of_lane(queue, lane, key)
    if score < calls.BLOCKED:  # with its seat, for its slot; otherwise it is delayed
        due = found.next_at is not None and score > due_at and moment(math.ceil(score)) == found.next_at
        return (f"it waits for the rate of its key {key}{_at(found)}", BY_RATE) if due else ("", "")
    in_front = f"{max(0, rank - before) + found.seats} in front"
    following = _following(found, rule)
    if following == BY_RATE and found.next_at:
        return f"it waits for the rate of its key {key}: {in_front}{_at(found)}", following
    limit = "" if found.limit is None else f" (at most {found.limit} at a time)"
    text = f"it waits for its key {key}{limit}: {in_front}"
    for message_id, consumer in found.held_by[:1]:
        page: Page = yield page_calls.browse(keys, ids=[message_id])
        until = page.rows()[0].lease_until if page.ids else 0
        text += f"; {message_id} "
        if until:
            at = f" at {consumer}" if consumer else ""
            text += f"is being processed{at} until {moment(until):%H:%M:%S} UTC"
        else:
            text += yield from _where(queue, page, now)
    return text + _at(found), following


def _following(found: KeyStats, rule: PerKey | None) -> str:
    """What lets in the next message of a key."""
    if rule is None or found.seats < (found.limit or rule.limit or int(rule.fair) or 1):
        return BY_RATE if rule and rule.rate else "a claim lets in the next message of its key"
    kept = rule.order or rule.limit is not None  # otherwise the seat is given back at the delivery
    return f"{NEXT} {'when that one is done' if kept else 'after that one'}"


def _at(found: KeyStats) -> str:
    """When the rate of keys lets in the next of a key, in words."""
    return "" if found.next_at is None else f"; the next by its rate at {found.next_at:%H:%M:%S} UTC"


def _where(queue: QueueState[Any], page: Page, now: int) -> Steps[str]:
    """Why a message that is not leased holds its seat, in words."""
    if not page.ids:
        return "was cancelled, and its call has not ended"
    row = page.rows()[0]
    state = read_state(row.state)
    if state is not None and state.part == "dead":
        return "is dead, and holds its lane until it is redriven, purged, moved or acked"
    _, dependency = said(Received(row, queue.codec, queue.name))
    if dependency is not None:
        found: DependencyStats = yield from outages.of_dependency(queue, dependency)
        if found.open:
            return f"waits for {dependency}: {outage.why(found, moment(now))}"
    return "holds its seat"
