"""Acks and sends that take effect together: the end of a session, and the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from rq_dlq._keys import MoreKeys
from rq_dlq.core.jobs.calls import member_of
from rq_dlq.core.settling.calls import NO_RESULTS
from rq_dlq.core.steps.call import Argument, Call, Held, Sender, read_ids, whole
from rq_dlq.core.steps.replies import Word, one_of

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

FIRST = 4  # the position of the first item among the arguments of the verb `commit`
_VERDICT = one_of(Word.DONE, Word.LOST, Word.DELETED, Word.INCOMPLETE, Word.PAST, Word.FULL, Word.KNOWN)
_NOT_HELD = one_of(Word.SETTLED_BEFORE, Word.LOST, Word.GONE)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Messages of a session that share their times, which are as in `values/times.py`."""

    delay: int
    ttl: int
    items: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Staged:
    """A list of messages that a session has staged, since they are too large for one call.

    Attributes:
        job: the name that all lists of the session share.
        attempt: the name of the list, which has the delay and the time to live of its messages.
        count: how many messages it holds.
        longest: bytes of the longest payload.
    """

    job: str
    attempt: str
    count: int
    longest: int


@dataclass(frozen=True, slots=True)
class Share:
    """The acks and sends of a session in one queue; a queue may have several.

    Attributes:
        results: by id, for messages whose results were asked for (`results.packed`).
    """

    keys: QueueKeys
    held: Sequence[Held]
    outgoing: Sequence[Outgoing]
    opening: str = ""
    staged: Staged | None = None
    results: Mapping[str, bytes] = field(default_factory=lambda: NO_RESULTS)


class Ended(NamedTuple):
    """The end of a session.

    Attributes:
        verdict: DONE; or nothing was done: LOST, KNOWN, DELETED (one of the queues), INCOMPLETE (the staged
            messages no longer exist), PAST (messages would have expired) or FULL.
        lost: ids of messages that are not held.
        blocked: queues and ids of messages that were not sent, since a dead letter has their id.
        other_keys: the messages that were not sent, since the queue has their ids, with another key.
        known: the messages whose ids their queues have, if that refuses the commit.
        full: the queue that has no room, and how many messages it has; -1: it takes no staged messages.
    """

    verdict: Word = Word.DONE
    lost: Sequence[str] = ()
    blocked: Sequence[tuple[str, str]] = ()
    other_keys: Sequence[tuple[str, str]] = ()
    known: Sequence[tuple[str, str]] = ()
    full: tuple[str, int] = ("", 0)


def ack_all(keys: QueueKeys, held: Sequence[Held]) -> Call[Ended]:
    """Ack all or nothing.

    A repeated call that finds every message gone is done: the first try did it. If one is still there, the
    first try did nothing either, and another consumer settled those that are gone.
    """

    def read(reply: Any, *, repeated: bool = False) -> Ended:
        lost = whole(reply, 0, and_each=2)
        verdicts = [_NOT_HELD[verdict] for verdict in lost[1::2]]
        if not lost or (repeated and verdicts == [Word.GONE] * len(held)):
            return Ended()
        numbers: list[int] = lost[::2]
        return Ended(Word.LOST, tuple(held[number - 1][0] for number in numbers))

    items = [*chain.from_iterable(held)]
    return Call("ack_all", keys, {}, items, read, repetition_reader=partial(read, repeated=True))


def commit(sender: Sender, shares: Sequence[Share], *, grace: int = 0, strict: bool = False) -> Call[Ended]:
    """Send and ack in several queues, all or nothing.

    Args:
        grace: milliseconds that the caller has to move staged messages before maintenance does.
        strict: do nothing if a queue has the id of a message that is sent to it.
    """
    items: list[Argument] = []
    for share in shares:
        items += share.opening, len(share.held)
        for message_id, token in share.held:
            items += message_id, token, share.results.get(message_id, b"")
        items.append(len(share.outgoing))
        for group in share.outgoing:
            items += (group.delay, group.ttl, len(group.items) // 2, *group.items)
        staged = share.staged
        items += (member_of(staged.job, staged.attempt), 2 * staged.count) if staged else ("", 0)

    def read(reply: Any) -> Ended:
        verdict = _VERDICT[reply[0]]
        if verdict is Word.LOST:
            return Ended(verdict, tuple(read_ids(reply[2::2])))
        if verdict is Word.FULL:
            return Ended(verdict, full=(shares[reply[1] - 1].keys.family, reply[2]))
        known: dict[bool, list[tuple[str, str]]] = {
            True: [],
            False: [],
        }  # by whether a dead letter has the id
        pairs: list[tuple[int, int]] = list(zip(reply[1::2], reply[2::2], strict=True))
        for n, at in pairs:
            known[at > 0].append((shares[n - 1].keys.family, str(items[abs(at) - FIRST])))
        if verdict is Word.KNOWN:
            return Ended(verdict, known=tuple(known[True]))
        return Ended(verdict, blocked=tuple(known[True]), other_keys=tuple(known[False]))

    args: dict[str, Argument] = {"number": sender.number, "grace": grace, "strict": int(strict)}
    return Call("commit", sender.keys, args, items, read, [_keys_of(share) for share in shares])


def _keys_of(share: Share) -> MoreKeys:
    staged = share.staged
    where = share.keys.stage(staged.job, staged.attempt) if staged else share.keys.silent  # an empty list
    return MoreKeys(share.keys, {"staged": where})
