"""How long a call is repeated while Redis does not answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a call is repeated while Redis does not answer.

    Args:
        attempts: the number of tries; None: no limit.
        seconds: the time from the first to the last try; None: no limit.
        until: once this is set, there are no more tries, except a second one if the first did not time out:
            the first may have used a connection that broke long before.
    """

    attempts: int | None = 3
    seconds: float | None = 1.0
    until: threading.Event | None = None

    def end_with(self, error: BaseException) -> bool:
        """Whether the first try is the last one, after this error."""
        from rq_dlq._redis.errors import timed_out  # noqa: PLC0415 - only when there are connections

        over = self.until is not None and self.until.is_set()
        return self.attempts == 1 or (over and timed_out(error))

    def through_failover(self) -> Retries:
        """The retries where another server can take over: that takes some seconds.

        A cluster also needs them while a slot moves. Retries that the caller chose stay as they are.
        """
        fail_fast = (self.attempts, self.seconds) == (FAIL_FAST.attempts, FAIL_FAST.seconds)
        return replace(self, attempts=None, seconds=FAILOVER) if fail_fast else self

    def limit(self) -> str:
        """How long a call is tried, for its error: `5 s`; empty: a number of times, or without a limit."""
        return f"{self.seconds:g} s" if self.attempts is None and self.seconds is not None else ""

    def settings(self) -> dict[str, Any]:
        """The settings for tenacity, for the tries after the first."""
        import tenacity  # noqa: PLC0415 - only when there are connections

        from rq_dlq._redis.errors import TRANSIENT, is_final  # noqa: PLC0415 - the same

        stops: list[Any] = []
        if self.attempts is not None:
            stops.append(tenacity.stop_after_attempt(self.attempts - 1))
        if self.seconds is not None:
            stops.append(tenacity.stop_after_delay(self.seconds))
        if self.until is not None:
            stops.append(tenacity.stop_when_event_set(self.until))
        return {
            "stop": tenacity.stop_any(*stops) if stops else tenacity.stop_never,
            "wait": tenacity.wait_random_exponential(multiplier=0.05, max=1.0),
            "retry": tenacity.retry_if_exception(
                lambda error: isinstance(error, TRANSIENT) and not is_final(error)
            ),
            "reraise": True,
        }


FAILOVER = 5.0  # seconds
FAIL_FAST = Retries()
ONE_TRY = Retries(attempts=1)
