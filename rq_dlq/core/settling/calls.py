"""Settling held messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from rq_dlq.core.steps.call import Argument, Call, Held, whole
from rq_dlq.core.steps.replies import Word, one_of
from rq_dlq.values.later import upgrade
from rq_dlq.values.settlement import Fate, Settlement, settled_alike

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.values.failure import Cause


NO_RESULTS: Final[Mapping[str, bytes]] = MappingProxyType({})


def ack(
    keys: QueueKeys, held: Iterable[Held], results: Mapping[str, bytes] = NO_RESULTS
) -> Call[list[Settlement]]:
    """Ack: the messages are done.

    Args:
        results: requested results by id (`results.packed`).
    """
    given: Sequence[Argument] = ()
    if results:
        held = [*held]
        given = [results.get(message_id, b"") for message_id, _ in held]
    return _settle("ack", keys, {"given": len(given)}, held, done="acked", before=given)


def nack(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    delay: int | None,
    charge: bool,
    cause: Cause,
    consumer: str,
    seed: float,
    default_policy: bytes,
    counts: bool = False,
    pauses: bool = False,
) -> Call[list[Settlement]]:
    """Nack: the messages failed.

    Args:
        delay: milliseconds; None: the policy's.
        counts: the failure counts against the dependency of the messages.
        pauses: their keys are paused for as long as the delay.
    """
    args: dict[str, Argument] = {
        "consumer": consumer,
        "seed": seed,
        "default_policy": default_policy,
        "delay": b"" if delay is None else delay,
        "charge": int(charge),
        "error": cause.cells(),
        "counts": int(counts),
        "pauses": int(pauses),
    }
    return _settle("nack", keys, args, held, done="redelivered")


def poison(
    keys: QueueKeys,
    held: Iterable[Held],
    *,
    reason: Literal["poison", "unprocessable"],
    cause: Cause,
    consumer: str,
    seed: float,
    default_policy: bytes,
) -> Call[list[Settlement]]:
    """Poison: the messages die immediately; the policy determines how long a dead letter rests."""
    args: dict[str, Argument] = {
        "consumer": consumer,
        "seed": seed,
        "default_policy": default_policy,
        "reason": reason,
        "error": cause.cells(),
    }
    return _settle("poison", keys, args, held, done="dead")


def release(
    keys: QueueKeys, held: Iterable[Held], *, begun: bool = True, delay: int = 0
) -> Call[list[Settlement]]:
    """Release: the messages go back to the queue, uncharged.

    Args:
        begun: it may have been an attempt.
        delay: milliseconds until they are due.
    """
    args: dict[str, Argument] = {"begun": int(begun), "delay": delay}
    return _settle("release", keys, args, held, done="released")


def pass_on(
    keys: QueueKeys, held: Iterable[Held], *, mark: str, takers: Iterable[str], cause: Cause, consumer: str
) -> Call[list[Settlement]]:
    """Pass on: the messages rest, for another version of the program.

    Args:
        mark: of what the holder takes for the task instead; empty: nothing.
        takers: the marks of live workers for the task.
    """
    args: dict[str, Argument] = {
        "consumer": consumer,
        "mark": mark,
        "takers": " ".join(takers),
        "error": cause.cells(),
    }
    return _settle("pass_on", keys, args, held, done="passed_on")


def progress(keys: QueueKeys, held: Held, *, part: float, text: str) -> Call[bool]:
    """Note the progress of a message's call. Reads as whether it is still held.

    Args:
        part: 0 to 1.
    """
    message_id, token = held
    args: dict[str, Argument] = {
        "id": message_id,
        "token": token,
        "progress": f"{part:.4g}/{quote(text, safe='')}",
    }

    return Call("progress", keys, args, (), _is_held)


def extend(
    keys: QueueKeys, held: Iterable[Held], *, lease: int, only_later: bool = False
) -> Call[tuple[int, list[bool]]]:
    """Extend leases. Reads as the new deadline (milliseconds) and whether each is still held.

    Args:
        only_later: leave a lease as it is that ends later.
    """
    ids, items = _items(held)

    def read(reply: Any) -> tuple[int, list[bool]]:
        deadline, *verdicts = whole(reply, 1, and_each=1)
        if verdicts == [_SETTLED]:
            return deadline, [True] * len(ids)
        return deadline, [*map(_is_held, whole(verdicts, len(ids)))]

    return Call("extend", keys, {"lease": lease, "only_later": int(only_later)}, items, read)


def _items(held: Iterable[Held]) -> tuple[Sequence[str], list[Argument]]:
    """The ids of held messages, and the items that name them (lua/settle.lua).

    The items are how many, their ids, then each token and how many of these, in a row, it holds.
    """
    ids, tokens = zip(*held, strict=True)
    if len(ids) == 1:
        return ids, [1, *ids, *tokens, 1]
    items: list[Argument] = [len(ids), *ids]
    for token, run in groupby(tokens):
        items += token, len([*run])
    return ids, items


def _settle(
    verb: str,
    keys: QueueKeys,
    args: Mapping[str, Argument],
    held: Iterable[Held],
    *,
    done: Fate,
    before: Sequence[Argument] = (),
) -> Call[list[Settlement]]:
    """A call that settles.

    Args:
        done: the outcome of a message if the verdict is just "settled".
        before: items before those that name the messages.
    """
    ids, items = _items(held)
    if before:
        items = [*before, *items]

    def read(reply: Any, *, repeated: bool = False) -> list[Settlement]:
        if reply == _SETTLED:
            return settled_alike(ids, done)
        if isinstance(reply, bytes):
            _REFUSED[reply]
            raise upgrade("the redelivery policy of this queue", "")
        verdicts = whole(reply, len(ids))
        return [
            Settlement(i, done) if verdict == _SETTLED else _settlement(i, verdict, repeated)
            for i, verdict in zip(ids, verdicts, strict=True)
        ]

    return Call(verb, keys, args, items, read, repetition_reader=partial(read, repeated=True))


_SETTLED: Final = Word.SETTLED.encode()  # compared as it is received
_NOT_HELD: Final = one_of(Word.SETTLED_BEFORE, Word.LOST, Word.GONE)
_REFUSED: Final = one_of(Word.LATER)
_OUTCOMES: Final[Mapping[str, Fate]] = {
    word.value: word.value  # type: ignore[misc]
    for word in (
        *(Word.ACKED, Word.REDELIVERED, Word.DEAD, Word.EXPIRED),
        *(Word.DISCARDED, Word.KEPT, Word.PASSED_ON),
    )
}
_DEPENDENCY: Final = frozenset({"", Word.UNCHARGED, Word.CLOSED, Word.GATHERED})
"""What the outcome of a message may say of its dependency, or its gather."""


def _is_held(verdict: Any) -> bool:
    if verdict != _SETTLED:
        _NOT_HELD[verdict]
    return bool(verdict == _SETTLED)


def _settlement(message_id: str, answer: bytes, repeated: bool) -> Settlement:
    """The settlement of one message, unless the verdict is just "settled".

    A repeated call that finds its message settled by its own token, or gone, was done the first time.
    """
    said, delay, word, name = [*answer.decode(errors="replace").split(" ", 3), "", "", ""][:4]
    if (outcome := _OUTCOMES.get(said)) is not None and word in _DEPENDENCY:
        return Settlement(
            message_id,
            outcome,
            int(delay) / 1000 if delay else None,
            opened=name if word == Word.UNCHARGED else "",
            uncharged=word == Word.UNCHARGED,
            closed=name if word == Word.CLOSED else "",
            gathered=word == Word.GATHERED,
        )
    verdict = _NOT_HELD[word.encode() if outcome else answer]
    if repeated and verdict in {Word.SETTLED_BEFORE, Word.GONE}:
        return Settlement(message_id, "settled")
    return Settlement(message_id, "gone" if verdict is Word.GONE else "lost")
