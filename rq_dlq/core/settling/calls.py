"""Settling held messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from rq_dlq.core.steps.call import Argument, Call, Held, whole
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
    given: list[Argument] = [cell for pair in results.items() for cell in pair]
    return _settle("ack", keys, {"with_results": len(results)}, held, done="acked", before=given)


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

    def read(reply: Any) -> bool:
        return bool(reply == _SETTLED)

    return Call("progress", keys, args, (), read)


def extend(
    keys: QueueKeys, held: Iterable[Held], *, lease: int, only_later: bool = False
) -> Call[tuple[int, list[bool]]]:
    """Extend leases. Reads as the new deadline (milliseconds) and whether each is still held.

    Args:
        only_later: leave a lease as it is that ends later.
    """
    ids, items = _items(held)

    def read(reply: Any) -> tuple[int, list[bool]]:
        deadline, *verdicts = whole(reply, 1 + len(ids))
        return deadline, [verdict == _SETTLED for verdict in verdicts]

    return Call("extend", keys, {"lease": lease, "only_later": int(only_later)}, items, read)


def _items(held: Iterable[Held]) -> tuple[Sequence[str], list[Argument]]:
    """The ids of held messages, and the items that name them (lua/lib/settled).

    The items are how many, their ids, then each token and how many of these, in a row, it holds.
    """
    ids, tokens = zip(*held, strict=True)
    items: list[Argument] = [len(ids), *ids]
    for token, run in groupby(tokens):
        items += token, len([*run])
    return ids, items


def _settle(
    script: str,
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
        if reply == _LATER:
            raise upgrade("the redelivery policy of this queue", "")
        if reply == _SETTLED:
            return settled_alike(ids, done)
        verdicts = whole(reply, len(ids))
        return [
            Settlement(i, done) if verdict == _SETTLED else _settlement(i, verdict, repeated)
            for i, verdict in zip(ids, verdicts, strict=True)
        ]

    return Call(script, keys, args, items, read, repetition_reader=partial(read, repeated=True))


_SETTLED, _SETTLED_BEFORE, _LOST, GONE = 1, 2, 0, -1  # lua/lib/refusal.lua
_LATER, _UNCHARGED = -2, "uncharged"  # lua/nack.lua
_CLOSED = "closed"  # lua/ack.lua


def _settlement(message_id: str, answer: Any, repeated: bool) -> Settlement:
    """The settlement of one message, unless the verdict is just "settled".

    A repeated call that finds its message settled by its own token, or gone, was done the first time.
    """
    if isinstance(answer, bytes):
        outcome, delay, word, name = [*answer.decode(errors="replace").split(" ", 3), "", "", ""][:4]
        return Settlement(
            message_id,
            outcome,  # type: ignore[arg-type]
            int(delay) / 1000 if delay else None,
            opened=name if word == _UNCHARGED else "",
            uncharged=word == _UNCHARGED,
            closed=name if word == _CLOSED else "",
        )
    if repeated and answer in {_SETTLED_BEFORE, GONE}:
        return Settlement(message_id, "settled")
    return Settlement(message_id, "gone" if answer == GONE else "lost")
