"""Settling: ack, nack, poison, release, extend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rq_dlq import _calls
from rq_dlq._work.steps import CHUNK, WINDOW, Batch, Steps, seed
from rq_dlq.durations import Duration, milliseconds
from rq_dlq.errors import LeaseLost, Poison, Redeliver, UnprocessableMessage
from rq_dlq.failure import Cause
from rq_dlq.message import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq._calls import Call, Held
    from rq_dlq._work.queue import Queue


def ack(queue: Queue[Any], held: Sequence[Held]) -> Steps[list[Settlement]]:
    """Done."""
    return (yield from _settle(held, lambda chunk: _calls.ack(queue.keys, chunk)))


def nack(
    queue: Queue[Any],
    held: Sequence[Held],
    error: BaseException | str | None,
    *,
    delay: Duration | None = None,
    charge: bool = True,
) -> Steps[list[Settlement]]:
    """Failed; dead when the error is one of the policy's `fatal` ones."""
    if isinstance(error, queue.redelivery.fatal):
        return (yield from poison(queue, held, error))
    after = None if delay is None else milliseconds(delay, name="delay")
    cause = Cause.of(error)

    def call(chunk: Sequence[Held]) -> Call[list[Settlement]]:
        return _calls.nack(
            queue.keys, chunk, delay=after, charge=charge, cause=cause, consumer=queue.consumer,
            seed=seed(), default_policy=queue.policy,
        )  # fmt: skip

    return (yield from _settle(held, call))


def poison(
    queue: Queue[Any],
    held: Sequence[Held],
    error: BaseException | str | None,
    *,
    reason: Literal["poison", "unprocessable"] = "poison",
) -> Steps[list[Settlement]]:
    """Never again."""
    cause = Cause.of(error)
    return (
        yield from _settle(
            held,
            lambda chunk: _calls.poison(
                queue.keys, chunk, reason=reason, cause=cause, consumer=queue.consumer
            ),
        )
    )


def release(queue: Queue[Any], held: Sequence[Held]) -> Steps[list[Settlement]]:
    """Given back, uncharged."""
    return (yield from _settle(held, lambda chunk: _calls.release(queue.keys, chunk)))


def settle_by_error(
    queue: Queue[Any], held: Sequence[Held], error: BaseException | None
) -> Steps[list[Settlement]]:
    """Settle by how a handler ended: ack, or what its error asks for.

    What is no failure of the message (KeyboardInterrupt, SystemExit, a cancellation) releases it.
    """
    if error is None:
        return (yield from ack(queue, held))
    if isinstance(error, Redeliver):
        return (yield from nack(queue, held, error, delay=error.after, charge=error.charge))
    if isinstance(error, Poison):
        return (yield from poison(queue, held, error))
    if isinstance(error, UnprocessableMessage):
        return (yield from poison(queue, held, error, reason="unprocessable"))
    if isinstance(error, Exception):
        return (yield from nack(queue, held, error))
    return (yield from release(queue, held))


def extend_one(queue: Queue[Any], held: Held, lease: int) -> Steps[int]:
    """Start one lease anew; the new deadline (milliseconds).

    Raises:
        LeaseLost: the token is stale.
    """
    deadline, (still,) = yield from extend(queue, [held], lease)
    if not still:
        held_or_raise(Settlement(held[0], "lost"))
    return deadline


def extend(queue: Queue[Any], held: Sequence[Held], lease: int) -> Steps[tuple[int, list[bool]]]:
    """Start the leases anew; the new deadline (milliseconds), and whether each is still held."""
    deadline, still = 0, list[bool]()
    for start in range(0, len(held), CHUNK):
        deadline, part = yield _calls.extend(queue.keys, held[start : start + CHUNK], lease=lease)
        still += part
    return deadline, still


def _settle(
    held: Sequence[Held], call: Callable[[Sequence[Held]], Call[list[Settlement]]]
) -> Steps[list[Settlement]]:
    if len(held) <= CHUNK:
        return (yield call(held)) if held else []
    calls = [call(held[i : i + CHUNK]) for i in range(0, len(held), CHUNK)]
    settlements: list[Settlement] = []
    for start in range(0, len(calls), WINDOW):
        for part in (yield Batch(calls[start : start + WINDOW])):
            settlements += part
    return settlements


def one(steps: Steps[list[Settlement]]) -> Steps[Settlement]:
    """The settlement of a single delivery.

    Raises:
        LeaseLost: its token is stale.
    """
    (settlement,) = yield from steps
    return held_or_raise(settlement)


def held_or_raise(settlement: Settlement) -> Settlement:
    """The settlement, where there was something to settle."""
    if settlement.outcome == "lost":
        message = (
            f"message {settlement.id}: the lease was lost, so nothing was changed; "
            "it is redelivered to someone else. Use a longer lease or extend it"
        )
        raise LeaseLost(message)
    if settlement.outcome == "gone":
        message = f"message {settlement.id} is no longer in the queue: it was settled or removed before"
        raise LeaseLost(message)
    return settlement
