"""The outcomes of the tries of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq._redis.errors import Passing, Unheard
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import BrokerRefused, BrokerUnavailable

if TYPE_CHECKING:
    from rq_dlq.core.steps.step import Step


class Tries:
    """The outcomes of the tries of a step so far.

    Args:
        step: what is tried.
        limit: how long it is tried, for the error; see `Retries.limit`.

    Attributes:
        indeterminate: a try may have been carried out. A single call was not carried out if no server
            received it, or if the server refused it; with several calls, others may have been.
    """

    def __init__(self, step: Step, limit: str) -> None:
        self._whole = not isinstance(step, Pipeline) or len(step.calls) == 1
        self.indeterminate = False
        self._limit = limit

    def failed(self, error: BaseException) -> None:
        """Note that a try ended in this error."""
        self.indeterminate |= not (self._whole and isinstance(error, Passing | Unheard))

    def of_last_try(self, error: Exception) -> Exception:
        """The error of the last try, with the limit, and whether the call may have been carried out."""
        if isinstance(error, BrokerUnavailable | BrokerRefused):
            error.indeterminate = self.indeterminate
        if isinstance(error, BrokerUnavailable) and self._limit:
            error.args = (f"{error} (gave up after {self._limit}: Broker(patience=…) sets how long)",)
        if isinstance(error, BrokerRefused) and self.indeterminate:
            error.add_note("an earlier try had no reply and may have been carried out")
        return error
