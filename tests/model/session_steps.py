"""What sessions, jobs and streaming queries do, on the server and in the model."""

from __future__ import annotations

from typing import Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.steps.call import Call, Sender
from rq_dlq.core.steps.replies import Word
from tests.conftest import Clock
from tests.model.driver import Driver
from tests.model.operated_model import OperatedModel
from tests.model.operator_steps import check_places

Sent = list[tuple[str, int]]
GRACE = 1_000  # milliseconds


class SessionSteps:
    """A part of the machine in `machine`; `staged` is what jobs have committed and nobody has moved."""

    raw: Any
    clock: Clock
    queue: Driver
    keys: QueueKeys
    model: OperatedModel
    other: Driver
    other_model: OperatedModel
    drawn: int
    staged: list[tuple[str, str, Sent, int, int, int]]
    stream: dict[str, Any]
    numbered: list[tuple[Call[Any], Any]]

    def run(self, call: Call[Any], *, lost: bool = False) -> tuple[Any, Any]:
        raise NotImplementedError

    def sender(self) -> Sender:
        raise NotImplementedError

    def pairs(self, items: list[tuple[int, str]]) -> list[tuple[str, str]]:
        raise NotImplementedError

    def lost_of(self, pairs: list[tuple[str, str]]) -> list[str]:
        """Those that their token does not hold."""
        held = {message.id: message.holder for message in self.model.at("leased")}
        return [name for name, token in pairs if held.get(name) != token]

    def ack_all(self, items: list[tuple[int, str]], lost: bool) -> None:
        pairs = self.pairs(items)
        missing = self.lost_of(pairs)
        told, again = self.run(session_calls.ack_all(self.keys, pairs), lost=lost)
        assert [*told.lost] == missing
        if not missing:
            self.model.ack(dict.fromkeys(pairs))
        gone = not any(name in self.model.messages for name, _ in pairs)
        assert again is None or [*again.lost] == ([] if gone else missing)

    def commit(
        self,
        *,
        items: list[tuple[int, str]],
        own: Sent,
        others: Sent,
        delay: int,
        ttl: int,
        strict: bool,
        lost: bool,
    ) -> None:
        """The end of a session: acked here, sent here and to the other queue; strict: if no id is known."""
        pairs = self.pairs(items)
        missing = self.lost_of(pairs)
        self.drawn += 1
        shares = [
            session_calls.Share(
                self.keys, pairs, [session_calls.Outgoing(delay, ttl, self.queue.packed(*own))]
            ),
            session_calls.Share(
                self.other.keys, [], [session_calls.Outgoing(0, 0, self.other.packed(*others))]
            ),
        ]
        known = [(self.keys.family, name) for name, _ in own if self.model.knows(name)]
        known += [(self.other.keys.family, name) for name, _ in others if self.other_model.knows(name)]
        call = session_calls.commit(self.sender(), shares, strict=strict)
        told, again = self.run(call, lost=lost)
        assert [*told.lost] == missing
        assert [*told.known] == (known if strict and not missing else [])
        if not missing and not told.known:
            self.numbered.append((call, told))
            here = self.model.send(own, delay=delay, ttl=ttl)
            there = self.other_model.send(others, delay=0, ttl=0)
            blocked = [(self.keys.family, own[n][0]) for n, where in here.items() if where == "dead"]
            family = self.other.keys.family
            blocked += [(family, others[n][0]) for n, where in there.items() if where == "dead"]
            assert [*told.blocked] == blocked
            self.model.ack(dict.fromkeys(pairs))
        assert again is None or again == told
        check_places(self.other, self.other_model)

    def commit_job(self, items: Sent, delay: int, ttl: int, kept: bool, lost: bool) -> None:
        """A task wrote a list, and the job is committed, or given up."""
        self.drawn += 1
        job, attempt = f"j{self.drawn}", job_calls.attempt_of("a", delay=delay, ttl=ttl)
        self.raw.rpush(self.keys.stage(job, attempt), *self.queue.packed(*items))
        self.raw.expire(self.keys.stage(job, attempt), 600)
        if not kept:
            assert self.queue.run(job_calls.drop_staged(self.keys, job, attempt)) == 1
            return
        call = job_calls.commit_job(
            self.keys, job, {attempt: 2 * len(items)}, batch=0, call="c", grace=GRACE, remembered=600_000
        )
        told, again = self.run(call, lost=lost)
        assert told is Word.DONE
        assert again is None or again == told
        assert self.queue.run(job_calls.drop_staged(self.keys, job, attempt)) == 0
        self.staged.append((job, attempt, items, delay, ttl, self.clock.now + GRACE))

    def move_staged(self, limit: int, early: bool) -> None:
        """A part of the list that was committed first goes into the queue."""
        if not self.staged:
            return
        job, attempt, items, delay, ttl, due = self.staged[0]
        call = job_calls.move_staged(self.keys, job, attempt, limit=limit, early=early)
        moved = self.queue.run(call).messages
        if due > self.clock.now and not early:
            assert moved == 0
            return
        assert moved == len(items[:limit])
        self.model.send(items[:limit], delay=delay, ttl=ttl)
        self.staged[0] = (job, attempt, items[limit:], delay, ttl, due)
        if not items[limit:]:
            del self.staged[0]

    def begin_batch(self, batch: int, run: str, lost: bool) -> None:
        """Who begins a batch that another run began says that it failed."""
        stream = self.stream
        same = stream.get("batch") == batch
        fails = bool(same and stream["run"] != run)
        failed = stream.get("failures", 0) * same + fails
        in_a_row = stream.get("in_a_row", 0) + fails  # no batch here is noted to have rows
        stream |= {"batch": batch, "run": run, "failures": failed, "in_a_row": in_a_row}
        told, again = self.run(batch_calls.begin_batch(self.keys, "s", batch=batch, run=run), lost=lost)
        assert told == (stream.get("done", 0), failed, stream.get("half") == batch, in_a_row)
        assert again is None or again == told

    def note_batch(self, name: Any, batch: int, run: str, lost: bool) -> None:
        """How far it has come, unless another run has begun the batch since."""
        stream = self.stream
        told, again = self.run(
            batch_calls.note_batch(self.keys, "s", field=name, batch=batch, run=run), lost=lost
        )
        if stream.get("batch") == batch and stream["run"] != run:
            assert told is Word.OVERTAKEN
        else:
            stream[name] = max(batch, stream.get(name, 0))
            assert told == (stream[name], 0)
        assert again is None or again == told
