"""Settling: ack, nack, poison, release, extend."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Literal

from rq_dlq.core.gathers.carrying import carry_ended
from rq_dlq.core.queues.observers import NO_CAUSE
from rq_dlq.core.results.results import MOST
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.settling.calls import NO_RESULTS
from rq_dlq.core.settling.held import held_or_raise
from rq_dlq.core.settling.outages import log_ended, log_opened, note_uncounted
from rq_dlq.core.steps.step import CHANGED, CHUNK, CHUNK_BYTES, WINDOW, Pipeline, Steps, chunks, seed
from rq_dlq.errors import (
    KnownId,
    Poison,
    QueueFull,
    Redeliver,
    UnprocessableMessage,
)
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.flags import check_flag
from rq_dlq.values.settlement import Alike, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Call, Held
    from rq_dlq.values.failure import Cause
    from rq_dlq.values.leased import Leased

_closed, _gathered = attrgetter("closed"), attrgetter("gathered")
_token = itemgetter(1)
GOLDEN = (
    0.6180339887498949  # by which the Lua steps from one delay of a batch to the next (lua/judge.lua, judge)
)


def ack(
    queue: QueueState[Any], held: Sequence[Held], results: Mapping[str, bytes] = NO_RESULTS
) -> Steps[list[Settlement]]:
    """Ack: the messages are done; `results` as for `calls.ack`."""
    call = partial(settling_calls.ack, results=results) if results else settling_calls.ack
    is_small = not results or sum(map(len, results.values())) <= CHUNK_BYTES
    settlements = yield from _settle(queue, held, call, CHUNK if is_small else CHUNK_BYTES // MOST)
    if type(settlements) is Alike:  # nearly always
        return settlements
    told = [one for one in settlements if one.closed or one.gathered]
    if any(map(_closed, told)):
        yield from log_ended(queue, told)
    yield from _carry(queue, told)
    return settlements


def nack(
    queue: QueueState[Any],
    held: Sequence[Held],
    error: BaseException | str | None,
    *,
    delay: Duration | None = None,
    charge: bool = True,
    pause_key: bool = False,
    values: Iterable[str] = (),
) -> Steps[list[Settlement]]:
    """Nack: the messages failed; they are dead if the error is one of the policy's `fatal` ones.

    Args:
        pause_key: pause the keys of the messages for the delay, without a charge.
        values: the messages' own values (`Received._values`).

    Raises:
        InvalidInput: the delay, `charge` or `pause_key` is not valid; nothing was done.
    """
    check_flag(charge, "charge")
    check_flag(pause_key, "pause_key")
    charge = charge and not pause_key
    if isinstance(error, queue.redelivery.fatal):
        return (yield from poison(queue, held, error, values=values))
    after = None if delay is None else milliseconds(delay, name="delay")
    cause, drawn, counts = (
        queue.client.cause(queue.name, error, values),
        seed(),
        charge and queue.counted.has(error),
    )

    def call(keys: QueueKeys, chunk: Sequence[Held]) -> Call[list[Settlement]]:
        nonlocal drawn
        first, drawn = drawn, (drawn + GOLDEN * len(chunk)) % 1  # as the verb continues from it
        return settling_calls.nack(
            keys, chunk, delay=after, charge=charge, cause=cause, consumer=queue.consumer,
            seed=first, default_policy=queue.policy, counts=counts, pauses=pause_key,
        )  # fmt: skip

    settlements = yield from _settle(queue, held, call, error=error, cause=cause)
    if counts:
        log_opened(queue, settlements)
    elif charge:
        yield from note_uncounted(queue, held, error)
    yield from _carry(queue, settlements)
    return settlements


def poison(
    queue: QueueState[Any],
    held: Sequence[Held],
    error: BaseException | str | None,
    *,
    reason: Literal["poison", "unprocessable"] = "poison",
    values: Iterable[str] = (),
) -> Steps[list[Settlement]]:
    """Poison: the messages die immediately; dead letters stay dead letters, as after a nack."""
    cause = queue.client.cause(queue.name, error, values)

    def call(keys: QueueKeys, chunk: Sequence[Held]) -> Call[list[Settlement]]:
        return settling_calls.poison(
            keys, chunk, reason=reason, cause=cause, consumer=queue.consumer,
            seed=seed(), default_policy=queue.policy,
        )  # fmt: skip

    settlements = yield from _settle(queue, held, call, error=error, cause=cause)
    yield from _carry(queue, settlements)
    return settlements


def release(
    queue: QueueState[Any], held: Sequence[Held], *, begun: bool = True, delay: Duration | None = None
) -> Steps[list[Settlement]]:
    """Release: the messages go back to the queue, uncharged.

    Args:
        begun: whether a handler may have seen them. If not, this delivery was no attempt.
        delay: time until they are due; None: no delay.

    Raises:
        InvalidInput: the delay or `begun` is not valid; nothing was done.
    """
    check_flag(begun, "begun")
    after = 0 if delay is None else milliseconds(delay, name="delay")
    return (yield from _settle(queue, held, partial(settling_calls.release, begun=begun, delay=after)))


def pass_on(
    queue: QueueState[Any],
    held: Sequence[Held],
    error: BaseException,
    *,
    mark: str,
    takers: Iterable[str],
    values: Iterable[str] = (),
) -> Steps[list[Settlement]]:
    """Pass on: the messages rest, untried, for another version of the program; see `calls.pass_on`."""
    cause = queue.client.cause(queue.name, error, values)
    call = partial(settling_calls.pass_on, mark=mark, takers=takers, cause=cause, consumer=queue.consumer)
    return _settle(queue, held, call, error=error, cause=cause)


def settle_by_error(
    queue: QueueState[Any], held: Sequence[Held], error: BaseException | None, values: Iterable[str] = ()
) -> Steps[list[Settlement]]:
    """Settle by the error that a handler raised; None: ack.

    An error that is not a failure of the message (KeyboardInterrupt, SystemExit, a cancellation) releases it.
    """
    if error is None:
        return (yield from ack(queue, held))
    if isinstance(error, Redeliver):
        return (
            yield from nack(
                queue,
                held,
                error,
                delay=error.after,
                charge=error.charge,
                pause_key=error.pause_key,
                values=values,
            )
        )
    if isinstance(error, Poison):
        return (yield from poison(queue, held, error, values=values))
    if isinstance(error, UnprocessableMessage):
        return (yield from poison(queue, held, error, reason="unprocessable", values=values))
    if isinstance(error, Exception):
        charge = not isinstance(error, KnownId | QueueFull) or error.charge  # an ack that sends was refused
        return (yield from nack(queue, held, error, charge=charge, values=values))
    return (yield from release(queue, held))


def extend_one(queue: QueueState[Any], one: Leased[Any], lease: int) -> Steps[None]:
    """Extend one lease (milliseconds).

    Raises:
        LeaseLost: the token is stale.
    """
    (still,) = yield from extend(queue, [one], lease)
    if not still:
        held_or_raise(Settlement(one.id, "lost"), one.outcome)


def extend(queue: QueueState[Any], deliveries: Sequence[Leased[Any]], lease: int) -> Steps[list[bool]]:
    """Extend leases (milliseconds), and note when they end; whether each message is still held.

    In a worker no lease is made to end sooner: the worker does not cut short an extension of a handler, nor
    does a handler, which cannot tell when the worker extends next, cut short the worker's.
    """
    held, still = [one._held for one in deliveries], [False] * len(deliveries)
    for window in chunks(_by_family(queue, held), WINDOW):
        calls = [
            settling_calls.extend(keys, [held[n] for n in numbers], lease=lease, only_later=queue.tended)
            for keys, numbers in window
        ]
        replies = [(yield calls[0])] if len(calls) == 1 else (yield Pipeline(calls))
        for (_, numbers), (deadline, verdicts) in zip(window, replies, strict=True):
            for n, verdict in zip(numbers, verdicts, strict=True):
                still[n] = verdict
                if verdict:
                    shared = deliveries[n]._lease
                    shared.ends = max(shared.ends, deadline) if queue.tended else deadline
    return still


def _carry(queue: QueueState[Any], settlements: Iterable[Settlement]) -> Steps[None]:
    """Carry what all children of a gather have ended with, if a settlement tells so."""
    if any(map(_gathered, settlements)):
        yield from carry_ended(queue, None)


def family_of(queue: QueueName, token: str) -> QueueKeys:
    """The family of the messages that a token holds; a token of a view's member names it."""
    family = token.partition("@")[2]
    return replace(queue.keys, family=family) if family else queue.keys


def values_of(deliveries: Iterable[Leased[Any]]) -> Iterator[str]:
    """The messages' own values; a generator, so that they are computed only if a message has failed."""
    for message in deliveries:
        yield from message._values


def _by_family(
    queue: QueueName, held: Sequence[Held], size: int = CHUNK
) -> list[tuple[QueueKeys, Sequence[int]]]:
    """The positions of held messages, in chunks of one family each, of at most this size."""
    families: dict[QueueKeys, list[int]] = {}
    for n, (_, token) in enumerate(held):
        families.setdefault(family_of(queue, token), []).append(n)
    return [(keys, part) for keys, numbers in families.items() for part in chunks(numbers, size)]


def _is_one_family(held: Sequence[Held]) -> bool:
    """Whether no token names a family, so that all are of the queue's own."""
    tokens = held[0][1] if len(held) == 1 else "".join(map(_token, held))  # without Python code for each
    return "@" not in tokens


def _settle(
    queue: QueueState[Any],
    held: Sequence[Held],
    call: Callable[[QueueKeys, Sequence[Held]], Call[list[Settlement]]],
    size: int = CHANGED,
    *,
    error: BaseException | str | None = None,
    cause: Cause = NO_CAUSE,
) -> Steps[list[Settlement]]:
    """Settle messages, `size` of them in one call."""
    if not held:
        return []
    if len(held) <= size and _is_one_family(held):  # nearly always: one generator less
        asked = call(queue.keys, held)
        try:
            settlements: list[Settlement] = yield queue.indeterminate.resolve(asked, held)
        except BaseException as raised:
            queue.indeterminate.note(asked, held, raised)
            raise
        queue.indeterminate.settle(asked, held)
        if queue.client.observers:
            queue.client.observers.settled(queue.name, held, settlements, error, cause)
        return settlements
    found: dict[int, Settlement] = {}
    for window in chunks(_by_family(queue, held, size), WINDOW if size == CHUNK else 1):
        parts = [(keys, [held[n] for n in numbers]) for keys, numbers in window]
        replies = yield from _say(queue, [(call(keys, part), part) for keys, part in parts])
        for (_, numbers), reply in zip(window, replies, strict=True):
            found |= zip(numbers, reply, strict=True)
            if any(settlement.outcome in {"kept", "released"} for settlement in reply):
                queue.seen.returned(held[numbers[0]][1].partition("@")[2])
    settlements = [found[n] for n in range(len(held))]
    if queue.client.observers:
        queue.client.observers.settled(queue.name, held, settlements, error, cause)
    return settlements


def _say(
    queue: QueueState[Any], parts: Sequence[tuple[Call[list[Settlement]], Sequence[Held]]]
) -> Steps[list[list[Settlement]]]:
    """Settle each part by its call; remember indeterminate calls for the next time."""
    calls = [queue.indeterminate.resolve(call, held) for call, held in parts]
    try:
        replies = [(yield calls[0])] if len(calls) == 1 else (yield Pipeline(calls))
    except BaseException as error:
        for call, held in parts:
            queue.indeterminate.note(call, held, error)
        raise
    for call, held in parts:
        queue.indeterminate.settle(call, held)
    return replies
