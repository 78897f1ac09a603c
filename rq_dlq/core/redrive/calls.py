"""Redrives as jobs: started once, driven in steps by any process, managed, undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from rq_dlq._keys import NAMES, MoreKeys
from rq_dlq.core.redrive.record import NUMBERS, read_redrive
from rq_dlq.core.steps.call import Argument, Call, Command, read_ids
from rq_dlq.core.steps.replies import Word, one_of

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.redrive.record import Asked, Redrive

Steering = Literal["pause", "resume", "cancel"]
_STARTED: Final = one_of(Word.DONE, Word.DONE_BEFORE, Word.NOTHING, Word.INCOMPLETE, Word.FULL)
_STEERED: Final = one_of(Word.DONE, Word.UNCHANGED, Word.UNKNOWN)
_ENDED: Final = one_of(Word.STOPPED, Word.DELETED, Word.UNKNOWN)


class Stepped(NamedTuple):
    """The result of a step of a redrive; false: no message was moved.

    Attributes:
        moved: how many messages were moved back.
        wait: milliseconds until it may continue; None: it does not run.
    """

    moved: int
    wait: int | None

    def __bool__(self) -> bool:
        return self.moved > 0


class Undone(NamedTuple):
    """The result of a step of an undo; false: no message was taken back.

    Attributes:
        undone: how many messages are dead again.
        left: how many are still to check; None: the redrive does not exist.
    """

    undone: int
    left: int | None

    def __bool__(self) -> bool:
        return self.undone > 0


class Offer(NamedTuple):
    """A message of a redrive, as its caller has read it.

    Attributes:
        seen: when it had died, and how often it had been redriven; empty: it stays dead.
        record: the one that takes the place of its own; empty: none.
    """

    id: str
    seen: str = ""
    record: bytes = b""


class Offered(NamedTuple):
    """The result of an offer; false: no message was moved.

    Attributes:
        moved: how many messages were moved back.
        wait: milliseconds until it may continue; None: it does not run.
        position: the position in the list of the next message to offer.
        known: ids that the other queue has.
        deleted: the other queue was deleted in the meantime.
    """

    moved: int
    wait: int | None
    position: int
    known: Sequence[bytes]
    deleted: bool

    def __bool__(self) -> bool:
        return self.moved > 0


def list_ids(keys: QueueKeys, job: str, ids: Sequence[str]) -> Command[int]:
    """Append ids to the list of a redrive; `cut` must follow."""
    return Command((b"RPUSH", keys.redrive(job), *ids), int)


def listed(keys: QueueKeys, job: str, position: int, count: int) -> Command[list[str]]:
    """Ids of the list, from this position on."""
    return Command((b"LRANGE", keys.redrive(job), position, position + count - 1), read_ids)


def cut(keys: QueueKeys, job: str, length: int) -> Command[bytes]:
    """Cut the list to its length, so that ids appended twice after a lost reply are there once."""
    return Command((b"LTRIM", keys.redrive(job), 0, length - 1))


def keep(keys: QueueKeys, job: str, ttl: int) -> Command[int]:
    """Extend the time to live of the list, milliseconds."""
    return Command((b"PEXPIRE", keys.redrive(job), ttl), int)


def start_redrive(
    keys: QueueKeys,
    job: str,
    asked: Asked,
    *,
    listed: int | None,
    gone: int,
    leased: int = 0,
    grace: int,
    mark: str = "",
    made: int | None = None,
    returned: int = 0,
) -> Call[Word]:
    """Begin a redrive of the listed messages, or of all messages of its part.

    Args:
        listed: how many ids were listed; None: it takes all.
        gone: how many of the ids that were asked for are not there.
        leased: how many of the chosen messages are being processed, and left out.
        grace: milliseconds until maintenance drives it, if no other process does.
        mark: of the plan that it carries out.
        made: when the plan was made, milliseconds; None: it has none.
        returned: how often dead letters had returned then.
    """
    args: dict[str, Argument] = {
        "job": job,
        "record": msgspec.json.encode(asked),
        "listed": "" if listed is None else listed,
        "gone": gone,
        "leased": leased,
        "grace": grace,
        "made": "" if made is None else made,
        "returned_before": "" if made is None else returned,
    }
    more = MoreKeys(keys, {"redrive": keys.redrive(job), "sender": keys.sender(mark)})
    return Call("start_redrive", more, args, (), _STARTED)


def job_of(keys: QueueKeys, mark: str) -> Command[str | None]:
    """The redrive that has carried out a plan; None: none has."""
    return Command((b"GET", keys.sender(mark)), lambda reply: reply.decode() if reply else None)


def step_redrive(keys: QueueKeys, job: str, *, limit: int, grace: int) -> Call[Stepped]:
    """Drive a redrive one step."""
    args: dict[str, Argument] = {"job": job, "limit": limit, "grace": grace}
    return Call("step_redrive", _keys_of(keys, job), args, (), _read_stepped)


def offer_redrive(
    keys: QueueKeys,
    target: QueueKeys,
    job: str,
    *,
    position: int,
    grace: int,
    opening: str,
    offers: Sequence[Offer],
) -> Call[Offered]:
    """Drive a redrive whose messages only the caller can move.

    Args:
        target: the queue that they go to.
        position: the position of the first offer in the list; at another position nothing is done.
        grace: milliseconds until maintenance ends it, if its caller does not continue.
        opening: of the other queue; empty: they go back to their own.
    """
    args: dict[str, Argument] = {"job": job, "position": position, "grace": grace, "opening": opening}
    both = {"redrive": keys.redrive(job), **{f"to_{name}": target[name] for name in NAMES}}
    items = [cell for offer in offers for cell in offer]
    return Call("offer_redrive", MoreKeys(keys, both), args, items, _read_offered)


def _read_offered(reply: Any) -> Offered:
    moved, wait, position, known = reply
    return Offered(moved, _number(wait), position, known, deleted=wait == Word.DELETED.encode())


def steer_redrive(keys: QueueKeys, job: str, verb: Steering, *, by: str, user: str, grace: int) -> Call[Word]:
    """Pause, resume or cancel a redrive. Reads as DONE; UNCHANGED: its state does not allow that; UNKNOWN."""
    args: dict[str, Argument] = {"job": job, "verb": verb, "by": by, "user": user, "grace": grace}
    return Call("steer_redrive", _keys_of(keys, job), args, (), _STEERED)


def undo_redrive(keys: QueueKeys, job: str, *, by: str, user: str, cause: str, limit: int) -> Call[Undone]:
    """Take back the next messages of a redrive."""
    args: dict[str, Argument] = {"job": job, "by": by, "user": user, "cause": cause, "limit": limit}
    return Call("undo_redrive", _keys_of(keys, job), args, (), _read_undone)


def _keys_of(keys: QueueKeys, job: str) -> MoreKeys:
    return MoreKeys(keys, {"redrive": keys.redrive(job)})


def _read_stepped(reply: Any) -> Stepped:
    moved, wait = reply
    return Stepped(moved, _number(wait))


def _read_undone(reply: Any) -> Undone:
    undone, left = reply
    return Undone(undone, _number(left))


def _number(cell: int | bytes) -> int | None:
    """A number that may be there; None: a word says why not."""
    if not isinstance(cell, int):
        _ENDED[cell]
        return None
    return cell


def record(keys: QueueKeys, job: str) -> Command[Redrive | None]:
    """A redrive in its current state; None: it does not exist."""
    fields = (f"{job} {name}" for name in ("state", "why", *NUMBERS))
    parts: tuple[Argument, ...] = (b"HMGET", keys["redrives"], job, *fields)
    return Command(parts, lambda reply: read_redrive(job, keys.family, reply))


def jobs(keys: QueueKeys) -> Command[list[str]]:
    """The ids of the redrives that the queue remembers; first the running ones."""
    return Command((b"ZRANGE", keys["redriving"], 0, -1), read_ids)


def first(keys: QueueKeys) -> Command[list[str]]:
    """The redrive that maintenance must check first, if it is time; empty: none."""
    return Command((b"ZRANGE", keys["redriving"], 0, 0), read_ids)
