"""Running generators: `drive` is the one loop that carries out what another generator yields."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rq_dlq.core.steps.step import NodeUnavailable, Pipeline, R, Step, Steps

if TYPE_CHECKING:
    from rq_dlq.core.steps.call import Call, Command

S = TypeVar("S")
Y = TypeVar("Y")
U = TypeVar("U")


@overload
def drive(
    steps: Generator[S, Any, R],
    do: Callable[[S], Generator[Y, Any, Any]],
    reply: Any = ...,
    error: BaseException | None = ...,
) -> Generator[Y, Any, R]: ...
@overload
def drive(
    steps: Generator[Any, Any, R],
    do: Callable[[Any], Generator[Y, Any, Any]],
    reply: Any = ...,
    error: BaseException | None = ...,
    *,
    until: type[U],
) -> Generator[Y, Any, R | U]: ...
def drive(
    steps: Generator[Any, Any, Any],
    do: Callable[[Any], Generator[Any, Any, Any]],
    reply: Any = None,
    error: BaseException | None = None,
    *,
    until: type[Any] | tuple[()] = (),
) -> Generator[Any, Any, Any]:
    """Run a generator: `do` carries out each value that it yields; the result, or the error, goes back in.

    Args:
        steps: the generator; it decides what an error means.
        do: carries out one step, a generator itself.
        reply: the reply that `steps` waits for first, if it has begun; `error` the same, as an error.
        until: the kind of value that is for the caller: it is returned, and another call continues after it.

    Returns:
        The return value of `steps`, or the value that it has yielded for the caller.
    """
    while True:
        try:
            step = steps.send(reply) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value
        if isinstance(step, until):
            return step
        reply, error = None, None
        try:
            reply = yield from do(step)
        except BaseException as raised:  # noqa: BLE001 - the steps decide
            error = raised


def as_it_is(step: Step) -> Steps[Any]:
    """For `drive`: leave a step to the caller."""
    return (yield step)


def unrepeated(steps: Steps[R]) -> Steps[R]:
    """Run steps without waits or repetitions in a cluster, for callers that repeat them soon.

    Raises:
        NodeUnavailable: a node cannot be reached, or cannot carry out a step now.
    """
    return drive(steps, _apart)


def _apart(step: Any) -> Steps[Any]:
    is_batch = isinstance(step, Pipeline)
    results = yield Pipeline(step.calls if is_batch else (step,), apart=True)
    if error := lost_among(results):
        raise error
    return results if is_batch else results[0]


def lost_among(results: Iterable[Any]) -> NodeUnavailable | None:
    """The first error among the results of a pipeline whose calls are apart; None: all were carried out."""
    return next((result for result in results if isinstance(result, NodeUnavailable)), None)


def together(several: Sequence[Steps[R]]) -> Steps[list[R]]:
    """Run generators concurrently, with the next calls of all in one round trip; returns their results.

    Only one that is alone may wait. An error ends all.
    """
    if len(several) == 1:
        return [(yield from several[0])]
    results: dict[int, R] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(several)))
    while True:
        pending: dict[int, Call[Any] | Command[Any] | Pipeline] = {}
        for number, reply in replies.items():
            try:
                pending[number] = several[number].send(reply)  # type: ignore[assignment]
            except StopIteration as stop:
                results[number] = stop.value
        if not pending:
            return [results[number] for number in range(len(several))]
        parts = [step.calls if isinstance(step, Pipeline) else (step,) for step in pending.values()]
        read = iter((yield Pipeline([call for part in parts for call in part])))
        replies = {
            number: [next(read) for _ in step.calls] if isinstance(step, Pipeline) else next(read)
            for number, step in pending.items()
        }


def beside(*several: Steps[Any]) -> Steps[list[Any]]:
    """The same for generators with results of several kinds."""
    return together(several)
