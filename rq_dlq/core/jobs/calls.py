"""Jobs that write to a queue: the messages that their tasks stage are added together, or not at all.

A task stages messages in a list of its own, which is not read before the job is committed. The list's name
ends in the delay and the time to live that its messages share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rq_dlq._keys import MoreKeys
from rq_dlq.core.steps.call import Argument, Call, Command
from rq_dlq.core.steps.replies import Word, one_of

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

LISTS = ""  # in place of an attempt: the names of all lists of a job
ANY = 1 << 19  # bytes of a payload, if unknown: they are read one by one
_VERDICT: Final = one_of(Word.DONE, Word.DONE_BEFORE, Word.INCOMPLETE, Word.DELETED)


class Moved(NamedTuple):
    """The messages that a call moved into the queue; false: none.

    Attributes:
        messages: how many.
        known: how many of them the queue already had: they added nothing.
    """

    messages: int
    known: int

    def __bool__(self) -> bool:
        return self.messages > 0


def attempt_of(name: str, *, delay: int, ttl: int) -> str:
    """The name of the list for messages of this delay and time to live; milliseconds, 0: none."""
    return f"{name}.{delay}.{ttl}"


def stage(keys: QueueKeys, job: str, attempt: str, items: Sequence[Argument]) -> Command[int]:
    """Append items (id, payload, …) to a list; `cut` must follow. Reads as its length."""
    return Command((b"RPUSH", keys.stage(job, attempt), *items), int)


def cut(keys: QueueKeys, job: str, attempt: str, length: int) -> Command[bytes]:
    """Cut a list to its length, so that messages appended twice after a lost reply are there once."""
    return Command((b"LTRIM", keys.stage(job, attempt), 0, length - 1))


def keep(keys: QueueKeys, job: str, attempt: str, ttl: int) -> Command[int]:
    """Extend the time to live of a list (milliseconds). Reads as 1, or 0: it is gone."""
    return Command((b"PEXPIRE", keys.stage(job, attempt), ttl), int)


def note_list(keys: QueueKeys, job: str, attempt: str) -> Command[int]:
    """Add a list to those of its job, so that it is found if its task is killed; `keep` must follow."""
    return Command((b"RPUSH", keys.stage(job, LISTS), attempt), int)


def take_lists(keys: QueueKeys, job: str, limit: int) -> Command[list[str]]:
    """Take up to `limit` lists off those of their job; an empty list: none is left."""
    return Command(
        (b"LPOP", keys.stage(job, LISTS), limit), lambda reply: [name.decode() for name in reply or ()]
    )


def commit_job(
    keys: QueueKeys,
    job: str,
    lengths: Mapping[str, int],
    *,
    batch: int,
    call: str,
    grace: int,
    remembered: int,
    opening: str = "",
) -> Call[Word]:
    """Add the messages of all these lists to the queue, or none.

    Args:
        lengths: of the lists, by the names of the attempts.
        batch: of a stream; 0 for any other job.
        call: a random word, by which a repetition is recognized.
        grace: milliseconds that the caller has to move the messages before maintenance does.
        remembered: milliseconds that the commit is remembered.
        opening: of the queue, when the client opened it; empty: any.

    Returns:
        A call that reads as DONE; DONE_BEFORE: another call committed this batch, or a later one;
        INCOMPLETE: a list has expired, or is not as long as it was; DELETED: the queue was, since its
        opening.
    """
    args: dict[str, Argument] = {
        "batch": batch,
        "call": call,
        "grace": grace,
        "remembered": remembered,
        "opening": opening,
    }
    lists = [_staged(keys, job, attempt) for attempt in lengths]
    items = [cell for attempt, length in lengths.items() for cell in (member_of(job, attempt), length)]
    whole = MoreKeys(keys, {"job": keys.job(job)})
    return Call("commit_job", whole, args, items, _VERDICT, lists)


def move_staged(
    keys: QueueKeys, job: str, attempt: str, *, limit: int, early: bool, longest: int = ANY
) -> Call[Moved]:
    """Move messages of a committed list into the queue.

    Args:
        early: before it is due.
        longest: the largest payload, bytes, so that it can read many in one command.
    """
    _, delay, ttl = attempt.rsplit(".", 2)
    args: dict[str, Argument] = {
        "member": member_of(job, attempt),
        "limit": limit,
        "delay": int(delay),
        "ttl": int(ttl),
        "early": int(early),
        "longest": longest,
    }
    return Call("move_staged", _staged(keys, job, attempt), args, (), Moved._make)


def drop_staged(keys: QueueKeys, job: str, attempt: str) -> Call[int]:
    """Remove a list, unless it is committed. Reads as 1 if it was there."""
    args: dict[str, Argument] = {"member": member_of(job, attempt)}
    return Call("drop_staged", _staged(keys, job, attempt), args, (), int)


def remove(keys: QueueKeys, job: str, attempt: str) -> Command[int]:
    """Remove a list, committed or not. Reads as 1 if it was there."""
    return Command((b"DEL", keys.stage(job, attempt)), int)


def first_of(keys: QueueKeys, job: str, attempt: str) -> Command[bytes | None]:
    """The first value of a list."""
    return Command((b"LINDEX", keys.stage(job, attempt), 0))


def last_commit(keys: QueueKeys, job: str) -> Command[tuple[int, str]]:
    """The last batch of a job that was committed, and the call that did it; -1 and empty: none was."""
    return Command((b"GET", keys.job(job)), _read_commit)


def _read_commit(reply: bytes | None) -> tuple[int, str]:
    batch, _, call = (reply or b"-1 ").decode().partition(" ")
    return int(batch), call


def next_committed(keys: QueueKeys) -> Command[tuple[str, str] | None]:
    """The job and the attempt of the list that was committed first; None: all are moved."""
    return Command((b"ZRANGE", keys["committed"], 0, 0), _read_member)


def _staged(keys: QueueKeys, job: str, attempt: str) -> MoreKeys:
    return MoreKeys(keys, {"staged": keys.stage(job, attempt)})


def member_of(job: str, attempt: str) -> str:
    """A list in `committed`."""
    return f"{job}\n{attempt}"


def _read_member(reply: Any) -> tuple[str, str] | None:
    if not reply:
        return None
    job, _, attempt = reply[0].decode().partition("\n")
    return job, attempt
