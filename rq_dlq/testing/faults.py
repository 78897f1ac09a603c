"""Injects faults, to test how a program reacts to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from redis import exceptions

from rq_dlq._redis import AsyncConnections, Connections
from rq_dlq._scripts.verb import run_by
from rq_dlq.core.steps.call import Call
from rq_dlq.core.steps.step import calls_of
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    import pytest

    from rq_dlq._scripts import Joined
    from rq_dlq.core.steps.step import Step


_OF = {"send_limited": "send"}
"""Verbs that are others for tests."""


class Faults:
    """The faults to inject between the program and the server.

    A verb is a call to Redis: send, claim, ack, nack, poison, release, extend, commit, redrive, …
    """

    def __init__(self, verbs: Joined, patch: pytest.MonkeyPatch) -> None:
        self._verbs = [name for name in verbs.names() if name not in _OF and run_by(name) == (name,)]
        self._calls: Counter[str] = Counter()
        self._replies: Counter[str] = Counter()
        once, awaited = Connections._once, AsyncConnections._once  # noqa: SLF001

        def blocking(connections: Connections, step: Any, *, repeated: bool) -> Any:
            with self._around(step):
                return once(connections, step, repeated=repeated)

        async def awaiting(connections: AsyncConnections, step: Any, *, repeated: bool) -> Any:
            with self._around(step):
                return await awaited(connections, step, repeated=repeated)

        patch.setattr(Connections, "_once", blocking)
        patch.setattr(AsyncConnections, "_once", awaiting)

    def drop_call(self, verb: str, times: int = 1) -> None:
        """Drop the next calls of this verb before they reach the server.

        A call is tried three times, so three drops make it fail; a claim that is sent with a wait, four.

        Raises:
            InvalidInput: there is no such verb.
        """
        self._calls[self._checked(verb)] += times

    def drop_reply(self, verb: str, times: int = 1) -> None:
        """Let the server carry out the next calls of this verb, but drop its replies.

        Raises:
            InvalidInput: there is no such verb.
        """
        self._replies[self._checked(verb)] += times

    def pending(self) -> list[str]:
        """The faults that have not occurred yet."""
        lost = [("call", self._calls), ("reply", self._replies)]
        return [f"{what} of {verb!r}" for what, counts in lost for verb in counts.elements()]

    def _checked(self, verb: str) -> str:
        if verb not in self._verbs:
            raise InvalidInput(f"there is no verb {verb!r}: choose from {', '.join(self._verbs)}")
        return verb

    @contextmanager
    def _around(self, step: Step) -> Generator[None]:
        ran = [one.verb for one in calls_of(step) if isinstance(one, Call)]
        verbs = [_OF.get(each, each) for verb in ran for each in run_by(verb)]
        _use_up(self._calls, verbs, "the test drops this call")
        yield
        _use_up(self._replies, verbs, "the test drops this reply")


def _use_up(faults: Counter[str], verbs: list[str], what: str) -> None:
    for verb in verbs:
        if faults[verb] > 0:
            faults[verb] -= 1
            raise exceptions.ConnectionError(what)
