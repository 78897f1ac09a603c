"""Finds the message that makes a batch fail: the batch continues with its first half, then with half of that.

The second half is parked under its own name and becomes the next batch; the half parked last is first, and
only of one queue at a time. So one poison message among n costs log2(n) + 2 failures, and the others are
processed once.

A message that is left alone is also parked, and the batch continues empty. Only if that succeeds is the
message tried as its own batch, and it dies only there. So while the sink is down, no message dies. A sink
that fails only where there are rows would kill one after another; after a few in a row the query ends with an
error.

A driver that is away for longer than its lease leaves no batch to halve: its messages are back in the queue,
at their old positions. The next batch takes half of these suspects, and those that succeed are cleared. A
message that fails alone twice dies when it is redelivered.

*Failures are the query's, not the batch's.* Where each restart comes later than the lease, there is never a
second failure of one batch, and nothing left to halve. So the query counts its failures in a row, and
remembers how many messages at the head of the queue are suspected: those of the batch that lapsed. It
continues by halves of these; a success with rows takes its rows off the number. That is a binary search (13
failures for one killer among 100). A limit that doubles with each success took 26, since it meets the killer
again at each size. Other messages that come first, of a higher priority, only cost rounds. A message dies
when it has failed alone twice, which other causes rarely do. While messages are suspected, queues take turns,
and nothing is claimed ahead.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.batches.batches import ClaimedBatch, find_batch, halve_batch, held_by, rename_batch, token_of
from rq_dlq.core.settling import settle
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.offsets import Offset

logger = logging.getLogger("rq_dlq.spark")
IN_A_ROW = 3  # messages that must die in a row before the sink is the suspect
TIMES_ALONE = 2  # how often a message may fail as the only one of its batch, if its lease ends each time
DEPTHS = 32  # halves of halves: enough for a batch of four billion


class SparkBatchPoison(RqDlqError):  # noqa: N818 - the cause that a dead letter names
    """A batch failed repeatedly until this message was alone in it, and then failed again."""


class SinkFailed(RqDlqError):  # noqa: N818 - as all errors here
    """Many messages in a row died as poison: more likely, the sink fails for all rows."""

    def __init__(self, family: str, died: int) -> None:
        super().__init__(
            f"the last {died} tried messages of queue {family!r} died one after another as SparkBatchPoison, "
            "and no batch with rows has succeeded since: the sink or the handler fails for all, so no more "
            f"of them die. Fix it, start the query again, and `rq-dlq dlq redrive {family}` the dead ones. "
            "If they are all poison, set a greater maxBatchFailures"
        )


def narrow(
    queue: QueueState[Any], offset: Offset, begun: batch_calls.Begun, suspected: int, max_failures: int
) -> Steps[None]:
    """Find the message that makes the query fail, if the query has failed too often.

    Args:
        offset: names the batch that begins.
        suspected: messages at the head of the queue that have one which makes batches fail.
    """
    keys, messages = queue.keys, offset.queues[queue.keys.family].messages
    most = max(IN_A_ROW, max_failures)
    if not begun.failures:
        if suspected and messages == 1 == share_of(suspected) and (yield from _fails_alone(keys, offset)):
            yield from _kill(queue, offset, begun.in_a_row, most)
    elif begun.half or suspected or begun.in_a_row >= max_failures:
        held = sum((yield from held_by(keys, offset.tokens(keys.family))))
        if begun.half and held == 1 == messages:
            yield from _kill(queue, offset, begun.failures, most)
        elif held:
            yield from _halve(keys, offset, begun.failures, held)
        elif messages:  # the lease has ended, and they are back in the queue
            yield from _suspect(keys, offset, messages)


def in_turn(start: Offset, limits: Mapping[str, int], suspected: Mapping[str, int]) -> dict[str, int]:
    """The limit of one queue, each in its turn, so that the poison of one takes no others along."""
    if not limits:
        return {}
    turn = min(limits, key=lambda family: start.position(family).batch)
    some = suspected.get(turn, 0)
    return {turn: min(limits[turn], share_of(some)) if some else limits[turn]}


def share_of(suspected: int) -> int:
    """How many of the suspected messages a batch takes."""
    return max(1, suspected // 2)


def _halve(keys: QueueKeys, offset: Offset, failures: int, held: int) -> Steps[None]:
    family = keys.family
    depth = max((yield from halves(keys, offset)), default=-1) + 1
    kept = yield from halve_batch(keys, offset.tokens(family), _name(offset, depth))
    logger.warning(
        "%s: batch %d failed %d times; it continues with %d of its %d messages, the rest follows",
        family, offset.queues[family].batch, failures, kept, held,
    )  # fmt: skip


def _suspect(keys: QueueKeys, offset: Offset, messages: int) -> Steps[None]:
    yield batch_calls.note_suspected(keys, offset.query, messages)
    logger.warning(
        "%s: batch %d failed, and its lease has ended; the next one takes %d of its %d messages",
        keys.family, offset.queues[keys.family].batch, share_of(messages), messages,
    )  # fmt: skip


def _fails_alone(keys: QueueKeys, offset: Offset) -> Steps[bool]:
    """Whether the only message of the batch has failed alone too often; if not, note that it begins alone."""
    known: batch_calls.BatchProgress = yield batch_calls.progress(keys, offset.query)
    (token,) = offset.tokens(keys.family)
    (message_id,) = yield batch_calls.given_ids(keys, token)
    count, _, alone = known.alone.partition(" ")
    times = int(count) if alone == message_id else 0
    if times < TIMES_ALONE:
        yield batch_calls.note_alone(keys, offset.query, times + 1, message_id)
    return times >= TIMES_ALONE


def _kill(queue: QueueState[Any], offset: Offset, failures: int, most: int) -> Steps[None]:
    """Make a dead letter of the only message of the batch.

    If too many have died, every second time is an error, so that the message is tried again in between.
    """
    keys, family = queue.keys, queue.keys.family
    known: batch_calls.BatchProgress = yield batch_calls.progress(keys, offset.query)
    if known.poisoned >= most:
        if failures % 2:
            raise SinkFailed(family, most)
        return
    yield batch_calls.note_poisoned(keys, offset.query, known.poisoned + 1)
    batch = offset.queues[family].batch
    why = f"batch {batch} had only this message and failed, like the batches before it that had it"
    for token in offset.tokens(family):
        ids: list[str] = yield batch_calls.given_ids(keys, token)
        yield from settle.poison(queue, [(message_id, token) for message_id in ids], SparkBatchPoison(why))


def take_half(keys: QueueKeys, start: Offset) -> Steps[ClaimedBatch | None]:
    """The half parked last becomes the next batch after `start`; None: no half is parked."""
    waiting = yield from halves(keys, start)
    if not waiting:
        return None
    _, half = waiting.popitem()
    yield batch_calls.note_half(keys, start.query, start.position(keys.family).batch + 1)
    yield from rename_batch(keys, half, start.next(keys.family))
    return half


def halves(keys: QueueKeys, offset: Offset) -> Steps[dict[int, ClaimedBatch]]:
    """The parked halves, by depth; the half parked last is the last one."""
    names = [_name(offset, depth) for depth in range(DEPTHS)]
    given: list[int] = yield batch_calls.given_counts(
        keys, [token_of(name, keys.family, 0) for name in names]
    )
    found: dict[int, ClaimedBatch] = {}
    for depth, (name, count) in enumerate(zip(names, given, strict=True)):
        if count:
            found[depth] = yield from find_batch(keys, name)
    return found


def _name(offset: Offset, depth: int) -> str:
    return f"{offset.query}.half{depth}"
