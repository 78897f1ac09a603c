"""A streaming query and its batches: when they are claimed, planned and acked.

An offset names the last claimed batch of each queue. Spark stores it before it works on the batch, so a
restarted query finds the batch by its name, with the same messages in it.

1. `advance` notes that the batch `start` is done: Spark passes an offset only after its batch is in the
   commit log. Then it acks the batch and claims the next one. So the last batch is acked even while no
   message arrives; `commit` would be too late.
2. `plan` divides the batch's messages among tasks. A heartbeat renews its leases until it is acked.
   In the meantime `work_ahead` claims the next batch if this one is full. Then the ack also moves there, and
   `advance` has little to do.
3. A query that dies leaves its batches leased. If it restarts within the lease, it finds the same messages
   by their names. If it restarts later, the batch is empty, and the messages arrive in a later one.
4. A batch that an earlier run of the query began has failed. If the query fails too often in a row, `halving`
   finds the message that makes it fail.

- *An offset is a batch*, since Spark records an offset before it works on it, and asks for the next one only
  when the last is in its commit log. `commit(end)` comes one batch late, and never for the last batch.
  Messages that a dead driver claimed but did not record are found by the batch's name.
- *The next batch is claimed ahead* by a thread while Spark works on a full one, so `latestOffset` only notes
  a number. A run that dies in between loses nothing: the next one ends the ack of the batch before, whose
  claims the offset counts.
- *What was claimed ahead is released when the query stops.* Spark ends the process of a source by SIGTERM,
  and calls its `stop()` only if it has closed the connection before; so the signal raises `SystemExit`, after
  which `stop()` is called. If the signal comes after the end of the connection, it can raise just as `stop()`
  begins; so the end of the process stops it again. The batch that Spark has stays leased, or a restarted
  query would find it empty.
- *The query is drawn.* A source does not learn its checkpoint. The first offset draws a name that all later
  offsets carry. `stream:QUERY` in the queue remembers which batch is done, so an old copy of a checkpoint is
  detected, and a queue that was deleted and made again, which remembers none. Nothing is done before the
  first batch: there the run that has claimed it looks for its claims. Another run finds none either if the
  lease has ended, so it cannot tell.
- *Claiming, planning, acking and halving are generators*, tested without Spark and with a clock that the test
  moves. Those of several queues run in step, with the next calls of all in one round trip (`together`): 200
  queues cost a look two round trips, and a trigger ten. A look is plain reads; maintenance runs for a
  queue in which something is due, and a claim where a gate or a slot is.
- *An offset has a format, and keeps it.* Spark takes another text for new messages, and would run an empty
  epoch for it. So an offset without a new batch is written as it was read, and only the next batch brings the
  format of this version.
- *Counters tell whether messages are held.* `note_held` has the number of messages of the plan, less those
  that rows have settled since; each claim counts the messages that it holds. Only if the two differ are the
  ids of the rows read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.batches.batches import ack_batch, claim_batch, find_batch, held_by, sizes_of, withdraw_batch
from rq_dlq.core.batches.renewal import Renewal
from rq_dlq.core.steps.driving import as_it_is, together
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import DataLoss
from rq_dlq.spark.halving import halves, in_turn, narrow, take_half
from rq_dlq.spark.heartbeat import warn_of_lost
from rq_dlq.spark.options import shard_of
from rq_dlq.spark.partitions import Slice, dealt
from rq_dlq.spark.subscription import lose

if TYPE_CHECKING:
    from rq_dlq.core.batches.batches import ClaimedBatch
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.spark.offsets import Offset
    from rq_dlq.spark.options import StreamOptions
    from rq_dlq.spark.subscription import Backlog

LOOK = 250  # milliseconds between two looks at idle queues: Spark would ask 90 times a second
ANEW = (
    "a new checkpoint and a new prefix for what the sink writes, since epochs begin again at 0 (epoch_key() "
    "makes names that do not)"
)


class Query:
    """One run of a streaming query, as steps, which its reader runs beside the driver.

    Attributes:
        aside: by queue, the tokens of parked halves, whose leases must also be renewed.
    """

    def __init__(self, options: StreamOptions, backlog: Backlog, run: str) -> None:
        self._options = options
        self.backlog = backlog
        self.aside: dict[str, list[str]] = {}
        self._run = run
        self._done: dict[str, int] = {}  # by queue, the last batch that this run has noted as done
        self._begun: dict[str, int] = {}  # by queue, the last batch that this run has planned
        self._is_new = False  # the next batch is not one of an earlier run, and not a half
        self._to_ack: list[
            tuple[Offset, QueueKeys, batch_calls.BatchProgress]
        ] = []  # with the progress before
        self._is_full = False  # more may be ready than the last batch took
        self._suspected: dict[str, int] = {}  # by queue, how many messages have one that makes batches fail
        self._ahead: list[ClaimedBatch] = []  # the next batches, if they are claimed already

    def advance(self, start: Offset, most: int) -> Steps[Offset]:
        """Note that all batches up to `start`, which Spark has committed, are done, and ack them.

        If `work_ahead` has claimed the next batch, the ack is left to its next run.

        Returns:
            The offset of the next batch, which has at most `most` messages; `start` if none is ready.
        """
        yield from self._note(start)
        batches, self._ahead = self._ahead, []
        if not batches:
            yield from self._ack()
            batches = yield from self._waiting_batches(start)
        if not batches:
            if not (yield from self.backlog.is_worth_a_batch()):
                yield self.backlog.pause(LOOK)
                return start
            batches = yield from self._claim(start, most, wait=self._options.max_wait)
            if not (batches or self.backlog.is_alone or self.backlog.is_bounded):
                yield self.backlog.pause(LOOK)
        return start.after(batches)

    def work_ahead(self, end: Offset, most: int) -> Steps[Offset]:
        """While Spark works on the batch `end`: ack those before it; claim the next one if it filled up."""
        yield from self._ack()
        if self._is_full and self._is_new and (yield from self.backlog.is_worth_a_batch()):
            self._ahead = yield from self._claim(end, most)
        return end.after(self._ahead)

    @property
    def ahead(self) -> dict[str, int]:
        """How many messages `work_ahead` has claimed that Spark was not given, by queue."""
        return {batch.family: batch.messages for batch in self._ahead}

    def release_ahead(self) -> Steps[None]:
        """Release the batches that `work_ahead` claimed: Spark does not have their offsets."""
        ahead, self._ahead = self._ahead, []
        queues = self.backlog.queues
        yield from together(
            [withdraw_batch(queues[batch.family], batch.name) for batch in ahead if batch.family in queues]
        )

    def _note(self, start: Offset) -> Steps[None]:
        """See which queues there are and, in the same trip, what they know; note the batches of `start`."""
        new = [family for family, last in start.queues.items() if last.batch > self._done.get(family, 0)]
        keys = [QueueKeys(self._options.namespace, family) for family in new]
        asked: list[Steps[Any]] = [self.backlog.look(start.queues, start.read)]
        asked += [as_it_is(batch_calls.progress(each, start.query)) for each in keys]
        _, *known = yield from together(asked)
        found = zip(new, known, strict=True)
        yield from together([self._finish(start, *each) for each in found if each[0] in self.backlog.queues])

    def _finish(self, start: Offset, family: str, known: batch_calls.BatchProgress) -> Steps[None]:
        keys, batch = self.backlog.queues[family].keys, start.position(family).batch
        if known.done not in {batch - 1, batch}:
            self._lost(family, batch, known.done)
        begun = self._begun.get(family) == batch
        # Note it before the ack: a run that begins the batch now must not take its rest for the whole.
        run = self._run if begun else ""
        noted: batch_calls.QueryProgress | Word = yield batch_calls.note_done(
            keys, start.query, batch, run=run
        )
        if isinstance(noted, Word):
            raise ERRORS[noted](
                f"another run of this query has begun batch {batch} of queue {family!r} again, so this run "
                "does not ack it: two drivers use the same checkpoint: stop one of them"
            )
        self._done[family], self._suspected[family] = batch, noted.suspected
        self._to_ack.append((start, keys, known))
        if not begun:  # an earlier run may have died while it acked
            yield from ack_batch(keys, start.tokens_before(family))

    def _ack(self) -> Steps[None]:
        """Ack the batches that are done."""
        done, self._to_ack = self._to_ack, []
        yield from together([self._ack_batch(*each) for each in done])

    def _ack_batch(self, done: Offset, keys: QueueKeys, known: batch_calls.BatchProgress) -> Steps[None]:
        batch, messages = done.position(keys.family).batch, done.position(keys.family).messages
        acked = yield from ack_batch(keys, done.tokens(keys.family), messages)
        if acked and known.poisoned:
            yield batch_calls.note_poisoned(keys, done.query, 0)
        # Otherwise an earlier run may have acked, or the queue was deleted.
        if known.held > acked and known.done == batch - 1 and keys.family in self.backlog.queues:
            warn_of_lost(keys.family, f"batch {batch}", known.held - acked)

    def _lost(self, family: str, batch: int, done: int | None) -> None:
        if done and done >= batch:  # in any case: Spark would give used epochs to new messages
            raise DataLoss(
                f"the checkpoint is at batch {batch} of queue {family!r}, but batch {done} is done: the "
                "checkpoint is an old copy, and acked messages cannot be read again. Use the newest "
                f"checkpoint, or {ANEW}"
            )
        known = f"only batch {done}" if done else "no batch of this query"
        lose(
            self._options,
            f"the checkpoint is at batch {batch} of queue {family!r}, but the queue knows {known}: "
            "the queue was deleted and made again, Redis has lost data, or the query has not run for 30 days",
            f"Use {ANEW}; or, if this checkpoint is the newest, set failOnDataLoss=false to continue from "
            "here",
        )

    def _waiting_batches(self, start: Offset) -> Steps[list[ClaimedBatch]]:
        """Batches that an earlier run claimed but did not store; otherwise a parked half, of one queue alone.

        With halves of several queues in a batch, the poison message of one would take others along.
        """
        if self._is_new:
            return []
        each = [queue.keys for queue in self.backlog.queues.values()]
        batches = yield from together([find_batch(keys, start.next(keys.family)) for keys in each])
        if found := [batch for batch in batches if batch.messages]:
            return found
        parked = yield from together([halves(keys, start) for keys in each])
        for keys in (keys for keys, some in zip(each, parked, strict=True) if some):
            if half := (yield from take_half(keys, start)):
                return [half]
        self._is_new = True
        return []

    def _claim(self, start: Offset, most: int, wait: int = 0) -> Steps[list[ClaimedBatch]]:
        """Claim the batches after `start`; a single queue waits this many milliseconds for a message."""
        limits = yield from self.backlog.limits(most)
        if narrowed := any(self._suspected.values()):
            limits = in_turn(start, limits, self._suspected)
        most_bytes = self._options.max_bytes or math.inf
        renewal = Renewal(self._options.lease)
        queues = self.backlog.queues  # `plan` may find others meanwhile
        claims = [
            claim_batch(
                queues[family],
                start.next(family),
                limit=limit,
                size=most_bytes * limit / sum(limits.values()),
                lease=self._options.lease,
                wait=wait if self.backlog.is_alone else 0,
                renewal=renewal,
            )
            for family, limit in limits.items()
            if family in queues
        ]
        batches = yield from together(claims)
        for batch in batches:
            self.backlog.note(batch.family, batch.messages)
        batches = [batch for batch in batches if batch.messages]
        messages, size = sum(batch.messages for batch in batches), sum(batch.bytes for batch in batches)
        self._is_full = not narrowed and (messages >= most or size >= most_bytes)
        return batches

    def plan(self, start: Offset, end: Offset) -> Steps[list[list[Slice]]]:
        """Begin the batches between the two offsets, and divide them among tasks."""
        yield from self.backlog.look(end.queues, end.read)  # a queue may be deleted between the two
        there = self.backlog.queues
        queues = {family: there[family] for family in end.since(start) if family in there}
        begun = yield from together([self._begin(end, family) for family in queues])
        found = yield from together([self._slices(end, family) for family in queues])
        for family, is_first, (parts, _) in zip(queues, begun, found, strict=True):
            if is_first and not parts:  # it was claimed from another queue of this name
                self._lost(family, 1, 0)
        epoch = sum(count for _, count in found)
        held = {queue.keys: count for queue, (_, count) in zip(queues.values(), found, strict=True)}
        yield Pipeline([batch_calls.note_held(keys, end.query, n, epoch) for keys, n in held.items()])
        slices = [part for parts, _ in found for part in parts]
        return dealt(slices, self._options.partitions, self._options.cores)

    def _begin(self, end: Offset, family: str) -> Steps[bool]:
        """Begin a batch; whether it is the first one, and this run has claimed it."""
        queue, batch = self.backlog.queues[family], end.position(family).batch
        if self._begun.get(family) == batch:
            return False
        self._begun[family] = batch
        begun: batch_calls.Begun = yield batch_calls.begin_batch(
            queue.keys, end.query, batch=batch, run=self._run
        )
        if begun.done != batch - 1:
            self._lost(family, batch, begun.done)
        else:
            if family not in self._done:
                yield from ack_batch(queue.keys, end.tokens_before(family))
            yield from narrow(queue, end, begun, self._suspected.get(family, 0), self._options.max_failures)
        if begun.failures or begun.half:
            waiting = yield from halves(queue.keys, end)
            self.aside[family] = [token for half in waiting.values() for token in half.tokens]
        return batch == 1 and self._is_new

    def _slices(self, end: Offset, family: str) -> Steps[tuple[list[Slice], int]]:
        """The places of a batch, and how many messages it holds."""
        keys, tokens = self.backlog.queues[family].keys, end.tokens(family)
        places, held = yield from together([sizes_of(keys, tokens), held_by(keys, tokens)])
        slices = [
            Slice(keys, shard_of(family, self._options.shards), token, 0, count)
            for token, count in zip(tokens, places, strict=True)
            if count
        ]
        return slices, sum(held)
