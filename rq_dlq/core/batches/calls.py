"""Whole claims, by their tokens: read again, extended, settled; and the progress of a query with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from rq_dlq import _keys
from rq_dlq.core.steps.call import Argument, Call, Command
from rq_dlq.core.steps.replies import Word, one_of

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

_REFUSED: Final = one_of(Word.OVERTAKEN)
_TRUTHS: Final = {0: False, 1: True}
_REMEMBERED = 30 * 24 * 3600 * 1000  # milliseconds that an idle query is remembered


def places(keys: QueueKeys, token: str) -> Command[list[bytes]]:
    """The list of a claim: the ids that it was given; empty for a message that a sweep or a division took."""
    return Command((b"HGET", keys["claims"], token), lambda reply: (reply or b"").split(b"\n")[1:])


def extend_claim(keys: QueueKeys, tokens: Sequence[str], *, lease: int) -> Call[list[bool]]:
    """Extend the leases of claims (milliseconds). Reads as whether each claim still holds something."""
    return Call("extend_claim", keys, {"lease": lease}, tokens, _read_truths)


def ack_claim(keys: QueueKeys, token: str, batch: int = 0) -> Call[int]:
    """Ack all that a claim still holds. Reads as how many.

    Args:
        batch: how many messages its batch has: when a dependency comes back, twice as many are let in; 0:
            not known.
    """
    return Call("ack_claim", keys, {"token": token, "batch": batch}, (), int)


def divide_claim(keys: QueueKeys, token: str, *, to: str, keep: int) -> Call[int]:
    """Move all except the first `keep` to another token. Reads as how many that one holds."""
    return Call("divide_claim", keys, {"token": token, "to": to, "keep": keep}, (), int)


def given_ids(keys: QueueKeys, token: str) -> Command[list[str]]:
    """The ids that a claim was given; it may no longer hold all of them."""
    return Command((b"HGET", keys["claims"], token), _read_ids)


def _read_ids(reply: bytes | None) -> list[str]:
    text = (reply or b"").decode(errors="replace")  # of a damaged list: ids that no message has
    return [name for name in text.split("\n")[1:] if name]


def given_counts(keys: QueueKeys, tokens: Sequence[str]) -> Command[list[int]]:
    """How many messages each claim was given, the length of its list; 0: it has ended, or never existed."""
    return Command(
        (b"HMGET", keys["claims"], *tokens), lambda reply: [(text or b"").count(b"\n") for text in reply]
    )


def held_counts(keys: QueueKeys, tokens: Sequence[str]) -> Command[list[int]]:
    """How many messages each claim still holds; 0: it has ended, or never existed."""
    fields = [f"{token}:held" for token in tokens]
    return Command((b"HMGET", keys["claims"], *fields), lambda reply: [int(n or 0) for n in reply])


class Begun(NamedTuple):
    """The state of a batch that begins.

    Attributes:
        done: the last batch that is done.
        failures: how often this one has failed.
        half: whether it is half of a batch that failed too often.
        in_a_row: how often the query has failed since a batch with rows succeeded.
    """

    done: int
    failures: int
    half: bool
    in_a_row: int


def begin_batch(keys: QueueKeys, query: str, *, batch: int, run: str) -> Call[Begun]:
    """Note that a query begins a batch."""
    args: dict[str, Argument] = {"batch": batch, "run": run, "remembered": _REMEMBERED}
    return Call("begin_batch", _stream(keys, query), args, (), _read_begun)


class QueryProgress(NamedTuple):
    """The progress of a query.

    Attributes:
        batch: the last batch that is done.
        suspected: how many messages, the first in the queue, have one that makes batches fail; 0: unknown.
    """

    batch: int
    suspected: int


def note_batch(
    keys: QueueKeys, query: str, *, field: Literal["done", "half"], batch: int, run: str = ""
) -> Call[QueryProgress | Word]:
    """Note the progress of a query (`note_done`, `note_half`), which never goes back.

    Reads as OVERTAKEN if another run has begun the batch.
    """
    args: dict[str, Argument] = {"field": field, "batch": batch, "run": run, "remembered": _REMEMBERED}
    return Call("note_batch", _stream(keys, query), args, (), _read_noted)


def note_done(keys: QueueKeys, query: str, batch: int, *, run: str = "") -> Call[QueryProgress | Word]:
    """Note that a batch, and all before it, are done.

    Args:
        run: the run that began it last; empty: an earlier run began it.
    """
    return note_batch(keys, query, field="done", batch=batch, run=run)


def note_half(keys: QueueKeys, query: str, batch: int) -> Call[QueryProgress | Word]:
    """Note that a batch is the parked half of the one before it, which failed too often."""
    return note_batch(keys, query, field="half", batch=batch)


class BatchProgress(NamedTuple):
    """The progress of a query.

    Attributes:
        done: the last batch that is done; None: the query is unknown.
        held: how many messages the last batch that was planned must hold until it is acked.
        epoch: how many messages it was planned with, together with those of the query's other queues; 0:
            unknown.
        rows: how many it was planned with.
        poisoned: how many messages died in a row, each alone in its batch.
        alone: how often a message has begun as the only one of its batch, and its id; empty: none has since
            a batch with rows succeeded.
    """

    done: int | None
    held: int
    epoch: int
    rows: int
    poisoned: int
    alone: str


def progress(keys: QueueKeys, query: str) -> Command[BatchProgress]:
    """The progress of a query."""
    return Command((b"HMGET", keys.stream(query), *BatchProgress._fields), _read_progress)


def _read_progress(reply: Sequence[bytes | None]) -> BatchProgress:
    done, held, epoch, rows, poisoned, alone = reply
    return BatchProgress(
        int(done) if done else None,
        int(held or 0),
        int(epoch or 0),
        int(rows or 0),
        int(poisoned or 0),
        (alone or b"").decode(errors="replace"),
    )


def note_held(keys: QueueKeys, query: str, messages: int, epoch: int = 0) -> Command[int]:
    """Note how many messages the batch that is planned holds, and the query's batches of all queues."""
    counts = (b"held", messages, b"rows", messages, b"epoch", epoch)
    return Command((b"HSET", keys.stream(query), *counts))


def note_suspected(keys: QueueKeys, query: str, messages: int) -> Command[int]:
    """Note that one of this many messages at the head of the queue made a batch fail."""
    return Command((b"HSET", keys.stream(query), b"suspected", messages))


def note_alone(keys: QueueKeys, query: str, times: int, message_id: str) -> Command[int]:
    """Note how often a message has begun as the only one of its batch."""
    return Command((b"HSET", keys.stream(query), b"alone", f"{times} {message_id}"))


def note_settled(keys: QueueKeys, query: str, messages: int) -> Command[int]:
    """Note how many messages of the batch were settled. Reads as how many it must still hold."""
    return Command((b"HINCRBY", keys.stream(query), b"held", -messages))


def remember(keys: QueueKeys, query: str, milliseconds: int = _REMEMBERED) -> Command[int]:
    """Keep the progress of a query for another 30 days, or for as long as said."""
    return Command((b"PEXPIRE", keys.stream(query), milliseconds), int)


def note_poisoned(keys: QueueKeys, query: str, messages: int) -> Command[int]:
    """Note how many messages died in a row, each alone in its batch."""
    return Command((b"HSET", keys.stream(query), b"poisoned", messages))


def _stream(keys: QueueKeys, query: str) -> _keys.MoreKeys:
    return _keys.MoreKeys(keys, {"stream": keys.stream(query)})


def _read_truths(reply: Any) -> list[bool]:
    return [_TRUTHS[n] for n in reply]


def _read_noted(reply: Any) -> QueryProgress | Word:
    return (
        QueryProgress._make(map(int, cast("list[int]", reply)))
        if isinstance(reply, list)
        else _REFUSED[reply]
    )


def _read_begun(reply: Any) -> Begun:
    done, failures, half, in_a_row = reply
    return Begun(done, failures, bool(half), in_a_row)
