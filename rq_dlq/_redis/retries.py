"""How long a call is repeated while Redis does not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tenacity

from rq_dlq._redis.errors import TRANSIENT, Passing, Unheard, is_final
from rq_dlq._work import Batch
from rq_dlq.errors import BrokerRefused, BrokerUnavailable

if TYPE_CHECKING:
    import threading

    from rq_dlq._work import Step


class Tries:
    """What became of the tries of a step so far.

    Attributes:
        indeterminate: one of them may have been carried out. A call was not if no server received it, or if
            the server refused it; of several calls, others may have been.
    """

    def __init__(self, step: Step) -> None:
        self._whole = not isinstance(step, Batch) or len(step.calls) == 1
        self.indeterminate = False

    def failed(self, error: BaseException) -> None:
        """A try has ended in this."""
        self.indeterminate |= not (self._whole and isinstance(error, Passing | Unheard))

    def of_last_try(self, error: Exception) -> Exception:
        """The error that the last try ended in, which says whether the call may have been carried out."""
        if isinstance(error, BrokerUnavailable | BrokerRefused):
            error.indeterminate = self.indeterminate
        if isinstance(error, BrokerRefused) and self.indeterminate:
            error.add_note("a try before had no reply and may have been carried out")
        return error


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a call is repeated while Redis does not answer.

    Args:
        attempts: tries in all; None: no limit.
        seconds: from the first to the last try; None: no limit.
        until: once it is set, there is no further try.
    """

    attempts: int | None = 3
    seconds: float | None = 1.0
    until: threading.Event | None = None

    def settings(self) -> dict[str, Any]:
        """For tenacity; the first try is already over."""
        stops: list[Any] = []
        if self.attempts is not None:
            stops.append(tenacity.stop_after_attempt(max(1, self.attempts - 1)))
        if self.seconds is not None:
            stops.append(tenacity.stop_after_delay(self.seconds))
        waits = {}
        if self.until is not None:
            stops.append(tenacity.stop_when_event_set(self.until))
            waits["sleep"] = tenacity.sleep_using_event(self.until)
        return {
            **waits,
            "stop": tenacity.stop_any(*stops) if stops else tenacity.stop_never,
            "wait": tenacity.wait_random_exponential(multiplier=0.05, max=1.0),
            "retry": tenacity.retry_if_exception(
                lambda error: isinstance(error, TRANSIENT) and not is_final(error)
            ),
            "reraise": True,
        }


FAIL_FAST = Retries()
IN_CLUSTER = Retries(attempts=None, seconds=5.0)
"""In its place where there are several nodes: to move a slot or to promote a replica takes so long."""
