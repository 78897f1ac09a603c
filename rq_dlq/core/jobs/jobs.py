"""Jobs that write to a queue: their tasks stage messages, and one commit adds all of them, or none.

1. Each attempt of a task stages its messages in its own lists, which expire.
2. `commit` is the moment: the messages are in the queue, though not yet visible.
3. `move` makes them visible, a chunk at a time. If the committer dies, maintenance continues.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.jobs.stage import STAGE_TTL
from rq_dlq.core.opening import open_again, open_live
from rq_dlq.core.queues.registry import enlist
from rq_dlq.core.steps.confirm import taken_in
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import CHUNK, WINDOW, Pipeline, Steps, chunks
from rq_dlq.errors import BrokerRefused, InvalidInput, RqDlqError, Unconfirmed
from rq_dlq.values.durations import human
from rq_dlq.values.names import check_id

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Call
    from rq_dlq.core.steps.confirm import Confirm

logger = logging.getLogger("rq_dlq")
GRACE = 10_000  # milliseconds that a committer has between two chunks before maintenance takes over
REMEMBERED = 30 * 86_400_000  # milliseconds that a commit is remembered
NOTE = "!"  # begins the name of a list without messages: it has the commits for other queues


def check_job(job: str) -> None:
    """Raise InvalidInput unless this can name a job."""
    try:
        check_id(job)
    except InvalidInput as error:
        raise InvalidInput(f"the id of a job: {error}") from None


def commit(
    queues: Sequence[QueueState[Any]],
    job: str,
    lists: Mapping[str, Mapping[str, int]],
    *,
    batch: int = 0,
    grace: int = GRACE,
    remembered: int = REMEMBERED,
    ttl: int = STAGE_TTL,
) -> Steps[bool]:
    """Add the messages of all these lists to their queues, or none.

    The first queue decides. It stores the commits for the others, perhaps on other nodes of a cluster, in a
    list that is committed with it, so that maintenance makes them if the committer dies.

    Args:
        lists: how many messages each list holds (`Stage.counts`), by the name of the queue.
        batch: of a stream; each is committed once, and never after a later one.
        grace: milliseconds until maintenance moves the messages that are not visible yet.
        remembered: milliseconds that the commit is remembered.
        ttl: the one that the messages were staged with.

    Returns:
        False: the job, or this batch, was committed before, and nothing was done.

    Raises:
        BrokerRefused: some staged messages are gone; nothing was done.
        Unconfirmed: it is committed, but too few replicas have it; repeat the call to ask again.
        BrokerUnavailable: the outcome is unknown.
    """
    for queue in queues:
        yield from open_live(queue, "write to")
    keys = queues[0].keys
    lengths = {
        family: {name: 2 * n for name, n in counts.items()} for family, counts in lists.items() if counts
    }
    here, others = lengths.pop(keys.family, {}), lengths
    order = Order(batch, secrets.token_hex(8), grace, remembered, others)
    note = f"{NOTE}{order.call}.0.0"
    if others:
        yield from _stage_note(keys, job, note, order, ttl)
        here = {note: 1, **here}
    confirm = queues[0].client.confirm
    while True:
        call = order.commit(keys, job, here, queues[0].opening)
        (verdict,), why = yield from taken_in(confirm, keys, [call])
        if verdict is not Word.DELETED:
            break
        yield from open_again(queues[0], "write to")
    if verdict is Word.INCOMPLETE:
        raise _gone(job, keys.family, ttl)
    if why:
        raise _unconfirmed(job, why)
    if others and verdict:
        if lost := (yield from _tell(keys, job, note, confirm)):
            raise BrokerRefused(lost)
    elif others:
        yield from drop(keys, job, [note])
        yield from _ask(keys, job, others, confirm)
    return bool(verdict)


class Order(msgspec.Struct, frozen=True):
    """The arguments of a commit that other queues follow, and their lists."""

    batch: int
    call: str
    grace: int
    remembered: int
    others: dict[str, dict[str, int]]

    def commit(self, keys: QueueKeys, job: str, lengths: Mapping[str, int], opening: str) -> Call[Word]:
        """Commit the lists of one queue."""
        return job_calls.commit_job(
            keys, job, lengths, batch=self.batch, call=self.call, grace=self.grace,
            remembered=self.remembered, opening=opening,
        )  # fmt: skip


def _stage_note(keys: QueueKeys, job: str, note: str, order: Order, ttl: int) -> Steps[None]:
    """Keep the lists of other queues, and stage their commits, in a list without messages."""
    yield from _keep(keys, job, order.others, ttl)
    staged = job_calls.stage(keys, job, note, [msgspec.json.encode(order)])
    yield Pipeline([staged, job_calls.cut(keys, job, note, 1), job_calls.keep(keys, job, note, ttl)])


def _keep(keys: QueueKeys, job: str, others: Mapping[str, Mapping[str, int]], ttl: int) -> Steps[None]:
    """Extend the time to live of the lists of other queues until they are committed."""
    for family, lengths in others.items():
        there = replace(keys, family=family)
        for chunk in chunks(list(lengths)):
            if not all((yield Pipeline([job_calls.keep(there, job, attempt, ttl) for attempt in chunk]))):
                raise _gone(job, family, ttl)


def _ask(keys: QueueKeys, job: str, others: Iterable[str], confirm: Confirm | None) -> Steps[None]:
    """Ask the nodes of other queues whether an earlier commit is confirmed there.

    Raises:
        Unconfirmed: it is not.
    """
    for family in others if confirm else ():
        _, why = yield from taken_in(confirm, replace(keys, family=family), [])
        if why:
            raise _unconfirmed(job, why)


def _tell(keys: QueueKeys, job: str, note: str, confirm: Confirm | None = None) -> Steps[str]:
    """Make the commits for other queues that the first one has stored. A repetition changes nothing.

    The messages that were staged for them may be gone forever: then the rest is committed, and the note is
    removed, since it would hold up all later commits.

    Returns:
        The missing messages, a sentence; empty: none.
    """
    text: bytes | None = yield job_calls.first_of(keys, job, note)
    order = msgspec.json.decode(text, type=Order) if text else None
    gone: list[str] = []
    for family, lengths in order.others.items() if order else ():
        there = replace(keys, family=family)
        verdict, why = Word.DELETED, ""
        while verdict is Word.DELETED:
            opening, _ = yield from enlist(there)
            call = order.commit(there, job, lengths, opening)  # type: ignore[union-attr]
            (verdict,), why = yield from taken_in(confirm, there, [call])
        if verdict is Word.INCOMPLETE:
            gone.append(repr(family))
        elif why:
            raise _unconfirmed(job, why)
    yield Pipeline(
        [job_calls.remove(keys, job, note), job_calls.move_staged(keys, job, note, limit=1, early=True)]
    )
    what = (
        f"job {job}: its committed messages for {', '.join(gone)} are gone, since they were not moved in time"
    )
    return what if gone else ""


def tell_rest(keys: QueueKeys, job: str) -> Steps[None]:
    """Make the remaining commits of a job for other queues, which its committer did not reach."""
    _, call = yield job_calls.last_commit(keys, job)
    if call and (lost := (yield from _tell(keys, job, f"{NOTE}{call}.0.0"))):
        logger.error("%s: %s", keys.family, lost)


def _unconfirmed(job: str, why: str) -> Unconfirmed:
    return Unconfirmed(
        f"job {job}: committed, but too few replicas confirmed it, so a failover may lose it ({why}). Run it "
        "again under the same id, which writes nothing twice; `rq-dlq doctor` shows the replicas"
    )


def _gone(job: str, family: str, ttl: int) -> RqDlqError:
    return ERRORS[Word.INCOMPLETE](
        f"job {job} wrote nothing to {family!r}: some messages staged by its tasks are gone. Staged messages "
        "wait "
        f"{human(ttl)} for the commit: run the job again, with more time if it took longer"
    )


def move(
    keys: QueueKeys, job: str, attempt: str, limit: int = CHUNK * WINDOW, longest: int = job_calls.ANY
) -> Steps[job_calls.Moved]:
    """Make up to `limit` messages of a committed list visible; 0 of them when all are.

    Args:
        longest: bytes of the longest payload in the list.
    """
    sizes = [min(CHUNK, limit - start) for start in range(0, limit, CHUNK)]
    calls = [
        job_calls.move_staged(keys, job, attempt, limit=size, early=True, longest=longest) for size in sizes
    ]
    parts: list[job_calls.Moved] = [(yield calls[0])]
    if parts[0].messages == sizes[0] and len(calls) > 1:  # otherwise the messages are long, or all are moved
        parts += yield Pipeline(calls[1:])
    return job_calls.Moved(*map(sum, zip(*parts, strict=True)))


def drop(keys: QueueKeys, job: str, attempts: Sequence[str]) -> Steps[int]:
    """Remove staged lists, except committed ones; how many."""
    dropped = 0
    for chunk in chunks(attempts):
        dropped += sum((yield Pipeline([job_calls.drop_staged(keys, job, attempt) for attempt in chunk])))
    return dropped


def drop_rest(keys: QueueKeys, job: str) -> Steps[int]:
    """Remove all lists of a job that are staged and not committed: of tasks that were killed; how many."""
    dropped = 0
    while names := (yield job_calls.take_lists(keys, job, CHUNK)):
        dropped += yield from drop(keys, job, names)
    return dropped


def roll_forward(keys: QueueKeys, limit: int, *, early: bool = False) -> Steps[int]:
    """Move up to `limit` committed messages that were not moved in time (`early`: immediately); how many."""
    moved = 0
    while moved < limit and (head := (yield job_calls.next_committed(keys))):
        if head[1].startswith(NOTE):
            if lost := (yield from _tell(keys, *head)):
                logger.error("%s: %s", keys.family, lost)
            continue
        part: job_calls.Moved = yield job_calls.move_staged(keys, *head, limit=limit - moved, early=early)
        if not part:
            break
        moved += part.messages
    return moved
