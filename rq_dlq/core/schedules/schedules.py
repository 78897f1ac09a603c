"""Schedules: recurring sends.

A schedule is a record in its queue. Processes that maintain the queue fire due schedules: they compute the
next tick, since the Lua has no time zones. Then one call checks that the record is still the one that was
read, sends the message, and writes the new record. So exactly one of any number of processes fires a tick.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq._keys import QueueKeys
from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import UnreachableQueue, each_queue, lost_queue
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import who
from rq_dlq.core.schedules import calls
from rq_dlq.core.schedules.schedule import MINUTE, MOST_BYTES, SECOND, Record, Rule, Schedule, text_of
from rq_dlq.core.sending.answers import past
from rq_dlq.core.sending.ignored import warn_if_ignored
from rq_dlq.core.sending.packing import packer
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import CHANGED, NodeUnavailable, Pipeline, Steps
from rq_dlq.errors import InvalidInput, InvalidMessage
from rq_dlq.values.codec import Codec
from rq_dlq.values.durations import human, shown
from rq_dlq.values.key import given_of
from rq_dlq.values.names import check_id

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.core.steps.call import Argument, Call

logger = logging.getLogger("rq_dlq")
NAME, TICK = "schedule", "tick"  # headers of a message
VERB = "schedule sends to"
PUT_OFF = MINUTE  # until a record that cannot be read is checked again
STEPPED = MINUTE  # by which the server's clock may step back before ticks are sent once more
AT_ONCE = 50  # ticks of a queue that a worker sends before it looks after its leases again
CODEC = Codec[Any](Any, sys.maxsize)


def recurring(
    queue: QueueState[Any], body: Any, rule: Rule, options: SendOptions, *, declared: bool = False
) -> Record:
    """The record of a schedule that sends a body.

    Raises:
        InvalidInput: it cannot be sent, or is too long.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        raise InvalidMessage("a schedule sends JSON: its body cannot be bytes")
    packer(queue, options)(body)
    headers = dict(options.headers)
    if taken := {NAME, TICK} & headers.keys():
        raise InvalidMessage(
            f"header {min(taken)!r}: it names the schedule that sent the message; use another header"
        )
    record = Record(
        rule=rule,
        body=msgspec.Raw(queue.codec.encode(body)),
        headers=headers,
        priority=options.priority,
        ttl=options.ttl,
        key=options.key,
        dependency=options.dependency,
        declared=declared,
    )
    if (size := len(record.written(b""))) > MOST_BYTES:
        message = f"a schedule of {size:,} bytes: the limit is {MOST_BYTES:,}; send a reference to the data"
        raise InvalidMessage(message)
    return record


def schedule(queue: QueueState[Any], name: str, wanted: Record, by: str | None = None) -> Steps[Schedule]:
    """Write a schedule, in place of one with this name, which stays paused and keeps its ticks.

    Raises:
        InvalidInput: the name cannot be one, the queue is one of dead letters, or the `expires_at` of its
            messages has passed.
    """
    _check_name(name)
    who(by)  # raises an error before anything is done
    act = ""
    while True:
        yield from open_live(queue, VERB)
        if said := given_of(wanted.key, wanted.dependency):
            yield from warn_if_ignored(queue, said)
        (now, _), before = yield Pipeline([calls.due(queue.keys, limit=0), calls.record_of(queue.keys, name)])
        if -now <= wanted.ttl < 0:
            raise past(wanted.ttl)
        record = _renewed(wanted, before, now)
        text = record.written(before)
        if text == before:
            return Schedule.of(queue.name, name, record)
        act = act or (yield from act_of("scheduled", by, chosen=f"schedule {name}", how=str(wanted.rule)))
        done: Word = yield calls.schedule(
            queue.keys, name, known=before, record=text, at=record.at, opening=queue.opening, act=act
        )
        if done:
            return Schedule.of(queue.name, name, record)
        if done is Word.DELETED:
            yield from open_again(queue, VERB)  # it was deleted


def _renewed(wanted: Record, before: bytes, now: int) -> Record:
    due = wanted.rule.following(now - now % SECOND)
    try:
        known = Record.read(before)
    except InvalidInput:
        return msgspec.structs.replace(wanted, due=due)
    if wanted.rule.has_ticks_of(known.rule):
        is_sent = now < known.last <= now + STEPPED  # a small step must not repeat a tick
        due = known.due if is_sent else min(known.due, due)
    return msgspec.structs.replace(
        wanted, due=due, last=known.last, last_id=known.last_id, paused=known.paused
    )


def _check_name(name: object) -> None:
    try:
        check_id(f"{name}@{text_of(1)}")
        valid = isinstance(name, str) and name.strip() != ""
    except InvalidMessage:
        valid = False
    if not valid:
        message = f"{shown(name)} cannot name a schedule: use up to 150 characters of text"
        raise InvalidInput(message)


def declare(queue: QueueState[Any], wanted: Mapping[str, Record]) -> Steps[None]:
    """Write the schedules that the tasks of a queue declare; warn of those that no task declares any more."""
    for name, record in wanted.items():
        yield from schedule(queue, name, record)
    for found in _readable(queue.name, (yield calls.records(queue.keys))):
        if found.declared and found.name not in wanted:
            logger.warning(
                "%s: schedule %s is active, but no task of this program declares it: "
                "`rq-dlq schedule rm %s %s` removes it",
                *(queue.name, found.name, queue.name, found.name),
            )


def remove(queue: QueueName, name: str, by: str | None = None) -> Steps[bool]:
    """Remove a schedule; whether there was one.

    Raises:
        InvalidInput: this cannot be the name of one.
    """
    _check_name(name)
    act = yield from act_of("unscheduled", by, chosen=f"schedule {name}")
    while before := (yield calls.record_of(queue.keys, name)):
        if (yield calls.schedule(queue.keys, name, known=before, record=b"", at=None, act=act)):
            return True
    return False


def set_paused(queue: QueueName, name: str, *, paused: bool, by: str | None = None) -> Steps[bool]:
    """Pause a schedule, or resume it with the next tick from now; whether that changed anything.

    Raises:
        InvalidInput: the schedule does not exist.
    """
    _check_name(name)
    act = yield from act_of("paused" if paused else "resumed", by, chosen=f"schedule {name}")
    while True:
        (now, _), before = yield Pipeline([calls.due(queue.keys, limit=0), calls.record_of(queue.keys, name)])
        if not before:
            message = f"{queue.name!r} has no schedule {shown(name)}: `rq-dlq schedule ls` lists them"
            raise InvalidInput(message)
        record = Record.read(before)
        if record.paused == paused:
            return False
        due = record.due if paused else record.rule.following(now - now % SECOND)
        record = msgspec.structs.replace(record, paused=paused, due=due)
        text = record.written(before)
        if (yield calls.schedule(queue.keys, name, known=before, record=text, at=record.at, act=act)):
            return True


def read(namespace: str) -> Steps[list[Schedule]]:
    """The schedules of all queues. A queue that cannot be read is logged, and hides no other."""

    def read_part(part: Sequence[str]) -> Steps[list[tuple[str, Mapping[str, bytes]] | UnreachableQueue]]:
        replies = yield Pipeline([calls.records(QueueKeys(namespace, name)) for name in part], apart=True)
        return [
            lost_queue(name, reply) if isinstance(reply, NodeUnavailable) else (name, reply)
            for name, reply in zip(part, replies, strict=True)
        ]

    found: list[Schedule] = []
    for queue in (yield from each_queue((yield queue_calls.registered(namespace)), read_part)):
        if isinstance(queue, UnreachableQueue):
            logger.warning("%s: its schedules cannot be read: %s", queue.name, queue.error)
        else:
            found += _readable(*queue)
    return found


def _readable(family: str, records: Mapping[str, bytes]) -> list[Schedule]:
    found: list[Schedule] = []
    for name in sorted(records):
        try:
            found.append(Schedule.of(family, name, Record.read(records[name])))
        except InvalidInput as error:
            logger.warning("%s: schedule %s: %s", family, name, error)
    return found


def fire_due_of(keys: QueueKeys) -> Steps[list[float]]:
    """Fire the due schedules of a queue; milliseconds until the next one, nothing: the queue has none."""
    now, head = yield Pipeline([queue_calls.clock(), queue_calls.first_score(keys, "ticks")])
    if head is None:
        return []
    if head <= now:
        yield from fire(keys, AT_ONCE)
    return [max(0, head - now)]


def fire(keys: QueueKeys, limit: int) -> Steps[int]:
    """Send the due ticks, at most `limit` of them; how many."""
    sent = 0
    while sent < limit:
        now, rows = yield calls.due(keys, limit=min(limit - sent, CHANGED))
        if not rows:
            break
        firings = [_firing(keys, name, text, now) for name, text in rows]
        done: list[Word] = yield Pipeline([call for call, _ in firings])
        full = [row for row, word in zip(rows, done, strict=True) if word is Word.FULL]
        if full:
            firings += [_firing(keys, name, text, now, full=True) for name, text in full]
            done += yield Pipeline([call for call, _ in firings[len(rows) :]])
        for call, note in (firing for firing, was_done in zip(firings, done, strict=True) if was_done):
            sent += bool(call.items)
            if note:
                logger.warning("%s: schedule %s %s", keys.family, call.args["name"], note)
        if not any(done):  # others were faster, and continue
            break
    return sent


def _firing(
    keys: QueueKeys, name: str, text: bytes, now: int, *, full: bool = False
) -> tuple[Call[Word], str]:
    """The call that fires a schedule, or postpones it if it cannot be fired; the warning to log, if any.

    Args:
        full: the queue has no room for the message, so the tick is missed.
    """
    try:
        return _call_of(keys, name, text, now, full=full)
    except InvalidInput as error:
        call = calls.schedule(keys, name, known=text, record=text, at=now + PUT_OFF)
        return call, f"cannot be fired, next try in {human(PUT_OFF)}: {error}"


def _call_of(keys: QueueKeys, name: str, text: bytes, now: int, *, full: bool) -> tuple[Call[Word], str]:
    """The same of one that can be fired.

    Raises:
        InvalidInput: its record is damaged, or a later version wrote it.
    """
    record = Record.read(text)
    if record.paused or record.due > now:  # a call was interrupted before it wrote the index
        return calls.schedule(keys, name, known=text, record=text, at=record.at), ""
    tick, following = record.firing(now)
    note = ""
    if full:
        tick, note = None, f"has missed the tick at {text_of(record.due)}: the queue is full"
    elif -now <= record.ttl < 0:  # its messages have expired
        tick = None
    elif tick != record.due:
        what = "none was sent" if tick is None else "only the last was sent"
        note = f"has missed ticks since {text_of(record.due)}: {what}"
    items: list[Argument] = []
    if tick is not None:
        message_id = f"{name}@{text_of(tick)}"
        headers = {**record.headers, NAME: name, TICK: text_of(tick)}
        pack = CODEC.packer(record.priority, headers, key=record.key, dependency=record.dependency)
        items = [message_id, pack(record.body)]
        record = msgspec.structs.replace(record, last=tick, last_id=message_id)
    record = msgspec.structs.replace(record, due=following)
    call = calls.schedule(
        keys,
        name,
        known=text,
        record=record.written(text),
        at=following,
        tick=tick or 0,
        ttl=record.ttl,
        items=items,
    )
    return call, note
