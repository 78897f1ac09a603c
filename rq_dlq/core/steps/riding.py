"""Steps whose first calls ride in the round trip of other steps.

At one message a claim, the ack was half of the round trips. `riding` runs two generators with the first calls
of both in one `Pipeline`; the ack comes first. `consume` and the workers use it. After a lost reply the
pipeline is repeated as one call, and each call recognizes its repetition (I12). If the server refuses one of
the two, both are repeated alone, so the error reaches only that one.

An ack and a claim of the same queue are one call, `ack_and_claim`, which runs both verbs: Redis takes the
keys and the call once. For one message that saves a tenth of the instructions of Redis (362 k, now 327 k),
and the client a round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rq_dlq._scripts.verb import PAIRS
from rq_dlq.core.steps.call import Call, repetition, whole
from rq_dlq.core.steps.driving import as_it_is, drive
from rq_dlq.core.steps.step import Pipeline, Step, Steps, Wait, calls_of
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from rq_dlq._keys import Keys

R = TypeVar("R")
BOTH = {pair: both for both, pair in PAIRS.items()}
Reader = Callable[[Any], Any]


def riding(rider: Steps[object], steps: Steps[R]) -> Steps[R]:
    """Run both, with the first calls of both in one round trip; returns the result of `steps`.

    An error of that round trip is an error of both. If the server refuses one of them, each is repeated
    alone, so that only the refused one gets the error. If that is the rider, the steps are closed instead:
    its error is raised, and `steps` can be created again, as a repetition.

    Args:
        rider: settles messages, so its calls can be repeated.
        steps: claims or settles messages, likewise.
    """
    second = next(steps)  # if this fails, the rider has not begun
    first = next(rider, None)
    if first is None:
        return (yield from _alone(steps, second))
    if isinstance(first, Wait) or isinstance(second, Wait):
        yield from _alone(rider, first)
        return (yield from _alone(steps, second))
    both = both_of(first, second)
    try:
        replies = yield both or Pipeline([*calls_of(first), *calls_of(second)])
    except BrokerRefused:
        try:
            yield from _alone(rider, _repeated(first))
        except BaseException:
            steps.close()  # they note that they may have been done: the next such call is a repetition
            raise
        return (yield from _alone(steps, _repeated(second)))
    except BaseException as error:  # noqa: BLE001 - the steps decide
        with suppress(type(error)):
            yield from drive(rider, as_it_is, error=error)
        return (yield from drive(steps, as_it_is, error=error))
    of_first, of_second = replies if both else _apart(first, second, replies)
    try:
        more = rider.send(of_first)
    except StopIteration:  # nearly always
        pass
    else:
        yield from _alone(rider, more)
    try:
        more = steps.send(of_second)
    except StopIteration as stop:  # nearly always
        return stop.value  # type: ignore[no-any-return]
    return (yield from _alone(steps, more))


def after(wait: Wait, keys: Keys, steps: Steps[R]) -> Steps[tuple[float, R]]:
    """Wait, then run the steps. If their first call is for these keys, the server makes it as the wait ends.

    So the steps begin before the wait, and their first call is of that time.

    Args:
        keys: of the queue that is waited for.

    Returns:
        The milliseconds that the wait took, and the result of `steps`.
    """
    took, first = 0.0, next(steps)
    try:
        if isinstance(first, Call) and first.keys is keys:
            took, reply = yield replace(wait, then=first)
        else:
            took = yield wait
            reply = yield first
    except BaseException as error:  # noqa: BLE001 - the steps decide
        return took, (yield from drive(steps, as_it_is, error=error))
    return took, (yield from drive(steps, as_it_is, reply))


def both_of(first: Step, second: Step) -> Call[tuple[Any, Any]] | None:
    """One call that runs the verbs of both; None: there is none."""
    if not (isinstance(first, Call) and isinstance(second, Call) and first.keys is second.keys):
        return None
    both = BOTH.get((first.verb, second.verb))
    if both is None:
        return None

    def read(reply: Any, read_first: Reader = first.reader, read_second: Reader = second.reader) -> Any:
        of_first, of_second = whole(reply, 2)
        return read_first(of_first), read_second(of_second)

    def read_repetition(reply: Any) -> Any:
        return read(reply, repetition(first).reader, repetition(second).reader)

    args = {**second.args, **first.args}
    return Call(both, first.keys, args, first.items, read, (), read_repetition)


def _apart(first: Step, second: Step, replies: Sequence[Any]) -> tuple[Any, Any]:
    """The replies to each of two steps, from those of one round trip."""
    number = len(first.calls) if isinstance(first, Pipeline) else 1
    of_first = replies[:number] if isinstance(first, Pipeline) else replies[0]
    return of_first, replies[number:] if isinstance(second, Pipeline) else replies[number]


def _repeated(step: Step) -> Step:
    """The same step, each of whose calls may have been done before."""
    if isinstance(step, Pipeline):
        return replace(step, calls=[repetition(c) if isinstance(c, Call) else c for c in step.calls])
    return repetition(step) if isinstance(step, Call) else step


def _alone(steps: Steps[R], step: Step) -> Steps[R]:
    """Make a step that the steps have yielded, and continue."""
    try:
        reply = yield step
    except BaseException as error:  # noqa: BLE001 - the steps decide
        return (yield from drive(steps, as_it_is, error=error))
    return (yield from drive(steps, as_it_is, reply))
