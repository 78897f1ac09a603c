"""A streaming query and its batches: when they are claimed, planned and acked.

An offset names the last claimed batch of each queue. Spark stores it before it works on the batch, so a
restarted query finds the batch by its name, with the same messages in it.

1. `advance` acks all batches up to `start`, which Spark passes only after that batch is in its commit log.
   Then it claims the next batch. So the last batch is acked even while no message comes; `commit` would be
   too late.
2. `plan` divides the batch's messages among tasks. A heartbeat renews its leases until it is acked.
3. A query that dies leaves its batch leased. If it restarts within the lease, it plans the same messages.
   If it restarts later, the batch is empty, and the messages come in a later one.
4. A batch that an earlier run of the query began has failed. A batch that fails too often is halved, and so
   is a half that fails once (`halving`). A message that fails alone is poison, if an empty batch succeeds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rq_dlq import _work
from rq_dlq._calls import claims
from rq_dlq._work import Wait
from rq_dlq._work.batches import ack_batch, claim_batch, find_batch, held_by, sizes_of
from rq_dlq.errors import DataLoss, InvalidInput, LeaseLost
from rq_dlq.spark.halving import IN_A_ROW, halve, halves, take_half
from rq_dlq.spark.offsets import Position
from rq_dlq.spark.slices import Slice, dealt

if TYPE_CHECKING:
    from rq_dlq._work import Queue, Steps
    from rq_dlq.spark.offsets import Offset
    from rq_dlq.spark.options import StreamOptions
    from rq_dlq.values.counts import QueueStats

logger = logging.getLogger("rq_dlq.spark")
LOOK = 250  # milliseconds between two checks of several idle queues: Spark would ask 90 times a second
ANEW = (
    "a new checkpoint and a new prefix for what the sink writes, since epochs begin again at 0 (epoch_key() "
    "makes names that do not)"
)


class Query:
    """One run of a streaming query, as steps, which its reader runs beside the driver.

    Args:
        queues: the queues to read, by name.
        shards: their numbers, by name.
        run: the id of this run.

    Attributes:
        aside: by queue, the tokens of parked halves, whose leases have to be renewed, too.
    """

    def __init__(
        self, options: StreamOptions, queues: Mapping[str, Queue[Any]], shards: Mapping[str, int], run: str
    ) -> None:
        self._options = options
        self.aside: dict[str, list[str]] = {}
        self._queues = queues
        self._shards = shards
        self._run = run
        self._done: dict[str, int] = {}  # by queue, the last batch that this run knows to be done
        self._begun: dict[str, int] = {}  # by queue, the last batch that this run has planned
        self._looked: set[str] = set()  # queues without a batch of an earlier run
        self._allowed: dict[str, int] | None = None  # by queue, the rest of what was ready at AvailableNow

    def bound(self) -> Steps[None]:
        """Claim no more messages than are ready now."""
        self._allowed = yield from self._ready()

    def backlog(self) -> Steps[dict[str, int]]:
        """The number of waiting messages, by queue."""
        waiting: dict[str, int] = {}
        for family, queue in self._queues.items():
            waiting[family] = (yield from _work.stats(queue)).waiting
        return waiting

    def advance(self, start: Offset, most: int) -> Steps[Offset]:
        """Ack all batches up to `start`, then claim the next one.

        Args:
            start: the last offset that Spark has committed.
            most: messages in the next batch.

        Returns:
            The offset of the next batch; `start` if there is no message.

        Raises:
            DataLoss: the checkpoint is an old copy; or Redis lost data, and `failOnDataLoss` is set.
            LeaseLost: another run of the query works on the batch that this one began.
        """
        self._check(start)
        for family, last in start.queues.items():
            yield from self._finish(start, family, last)
        known = {family: start.queues.get(family, Position()) for family in self._queues}
        batches = yield from self._waiting_batches(start, known)
        if not batches:
            if not (yield from self._is_worth_a_batch()):
                yield self._pause()
                return start
            batches = yield from self._claim(start, known, most)
        if not batches:
            return start
        return replace(start, queues={**start.queues, **batches})

    def _check(self, offset: Offset) -> None:
        if strange := offset.queues.keys() - self._queues.keys():
            raise InvalidInput(
                f"the checkpoint is for {', '.join(sorted(strange))}, but the query reads "
                f"{', '.join(self._queues)}: use the checkpoint of these queues, or a new one"
            )

    def _finish(self, start: Offset, family: str, last: Position) -> Steps[None]:
        if last.batch <= self._done.get(family, 0):
            return
        keys = self._queues[family].keys
        known: claims.Progress = yield claims.progress(keys, start.query)
        if known.done not in {last.batch - 1, last.batch}:
            self._lost(family, last.batch, known.done)
        begun = self._begun.get(family) == last.batch
        # Note it before the ack: a run that begins the batch now must not take its rest for the whole.
        noted = yield claims.note_done(keys, start.query, last.batch, run=self._run if begun else "")
        if noted < 0:
            raise LeaseLost(
                f"another run of this query has begun batch {last.batch} of queue {family!r} again, so this "
                "run does not ack it: two drivers use one checkpoint, stop one of them"
            )
        acked = yield from ack_batch(keys, start.tokens(family))
        self._done[family] = noted
        if acked and known.poisoned:
            yield claims.note_poisoned(keys, start.query, 0)
        if known.held > acked and known.done == last.batch - 1:  # else an earlier run may have acked them
            logger.warning(
                "%s: batch %d is done, but %d of its messages were no longer held: their lease ran out (the "
                "driver was down, frozen or cut off from Redis), so they come again, though the sink has "
                "them. A longer lease helps, and check_held() in the sink",
                family, last.batch, known.held - acked,
            )  # fmt: skip

    def _lost(self, family: str, batch: int, done: int | None) -> None:
        if done and done >= batch:  # in any case: Spark would give used epochs to new messages
            raise DataLoss(
                f"the checkpoint is at batch {batch} of queue {family!r}, but batch {done} is done: the "
                "checkpoint is an old copy, and what is acked cannot be read again. Use the newest "
                f"checkpoint, or {ANEW}"
            )
        known = f"only batch {done}" if done else "no batch of this query"
        message = (
            f"the checkpoint is at batch {batch} of queue {family!r}, but the queue knows {known}: "
            "Redis has lost data, or the query did not run for more than 30 days"
        )
        if self._options.fail_on_loss:
            raise DataLoss(
                f"{message}. Use {ANEW}; or, if this checkpoint is the newest, set failOnDataLoss=false to "
                "continue from here"
            )
        logger.warning("%s", message)

    def _next(self, family: str, known: Mapping[str, Position]) -> int:
        return max(known[family].batch, self._done.get(family, 0)) + 1

    def _waiting_batches(self, start: Offset, known: Mapping[str, Position]) -> Steps[dict[str, Position]]:
        """Batches that an earlier run claimed but did not store, or that were parked."""
        found: dict[str, Position] = {}
        for family, queue in self._queues.items():
            if family in self._looked:
                continue
            number = self._next(family, known)
            batch = yield from find_batch(queue.keys, start.name(number))
            if not batch.messages:
                batch = yield from take_half(queue.keys, start, number)
            if batch.messages:
                found[family] = Position(number, len(batch.sizes), batch.messages)
            else:
                self._looked.add(family)
        return found

    def _claim(self, start: Offset, known: Mapping[str, Position], most: int) -> Steps[dict[str, Position]]:
        limits = yield from self._limits(most)
        alone = len(limits) == 1 and self._allowed is None  # then the claim itself waits for a message
        batches: dict[str, Position] = {}
        for family, limit in limits.items():
            if not limit:
                continue
            number = self._next(family, known)
            batch = yield from claim_batch(
                self._queues[family],
                start.name(number),
                limit=limit,
                size=(self._options.max_bytes or math.inf) * limit / sum(limits.values()),
                lease=self._options.lease,
                wait=self._options.max_wait if alone else 0,
            )
            if batch.messages:
                batches[family] = Position(number, len(batch.sizes), batch.messages)
            if self._allowed is not None:
                self._allowed[family] -= batch.messages or self._allowed[family]
        if not (batches or alone or self._allowed is not None):
            yield self._pause()
        return batches

    def _is_worth_a_batch(self) -> Steps[bool]:
        """Whether enough messages are ready, or have waited long enough."""
        options = self._options
        if options.min_messages == 1 or self._allowed is not None:  # AvailableNow has to end
            return True
        stats = (yield from self._stats()).values()
        waited = max(each.oldest or 0.0 for each in stats)
        return sum(each.ready for each in stats) >= options.min_messages or waited * 1000 >= options.max_delay

    def _pause(self) -> Wait:
        some = next(iter(self._queues.values()))
        return Wait(some.keys.silent, max(1, min(LOOK, self._options.max_wait)))

    def _limits(self, most: int) -> Steps[dict[str, int]]:
        """How many messages to claim from each queue: shares of the limit, by how many are ready there."""
        if len(self._queues) == 1 and self._allowed is None:  # the claim itself sees how many are ready
            return dict.fromkeys(self._queues, most)
        ready = self._allowed if self._allowed is not None else (yield from self._ready())
        share = min(1.0, most / max(1, sum(ready.values())))
        return {family: math.ceil(count * share) for family, count in ready.items()}

    def _ready(self) -> Steps[dict[str, int]]:
        return {family: stats.ready for family, stats in (yield from self._stats()).items()}

    def _stats(self) -> Steps[dict[str, QueueStats]]:
        """The counts of each queue, after its maintenance: what is due is ready."""
        found: dict[str, QueueStats] = {}
        for family, queue in self._queues.items():
            yield from _work.maintain(queue)
            found[family] = yield from _work.stats(queue)
        return found

    def plan(self, start: Offset, end: Offset) -> Steps[list[list[Slice]]]:
        """Divide the batches of `end` among tasks.

        Args:
            start: the offset before them.
            end: their offset.

        Returns:
            The slices that each task reads.

        Raises:
            DataLoss: as in `advance`.
        """
        self._check(end)
        slices: list[Slice] = []
        for family, last in end.queues.items():
            if start.queues.get(family) != last:
                yield from self._begin(end, family, last)
                slices += yield from self._slices(end, family)
        return dealt(slices, self._options.partitions, self._options.cores)

    def _begin(self, end: Offset, family: str, last: Position) -> Steps[None]:
        if self._begun.get(family) == last.batch:
            return
        self._begun[family] = last.batch
        queue = self._queues[family]
        done, failures, half = yield claims.begin_batch(
            queue.keys, end.query, batch=last.batch, run=self._run
        )
        if done != last.batch - 1:
            self._lost(family, last.batch, done)
        elif failures >= (1 if half else self._options.max_failures):
            yield from halve(queue, end, failures, half=half, most=max(IN_A_ROW, self._options.max_failures))
        if failures or half:
            waiting = yield from halves(queue.keys, end)
            self.aside[family] = [token for half in waiting.values() for token in half.tokens]

    def _slices(self, end: Offset, family: str) -> Steps[list[Slice]]:
        keys, tokens = self._queues[family].keys, end.tokens(family)
        places = yield from sizes_of(keys, tokens)
        held = yield from held_by(keys, tokens)
        yield claims.note_held(keys, end.query, sum(held))
        return [
            Slice(keys, self._shards[family], token, 0, count)
            for token, count in zip(tokens, places, strict=True)
            if count
        ]
