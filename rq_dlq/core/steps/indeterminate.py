"""Calls with unknown outcomes; a repetition of one reports that it was done before (I12)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from rq_dlq.core.steps.call import repetition
from rq_dlq.errors import BrokerRefused, BrokerUnavailable
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from rq_dlq.core.steps.call import Call, Held
    from rq_dlq.values.settlement import Settlement

R = TypeVar("R")
MOST = 10_000  # that are remembered, since a call may never be repeated


def is_indeterminate(error: BaseException) -> bool:
    """Whether a call that ended in this error may have been done."""
    return not isinstance(error, BrokerUnavailable | BrokerRefused) or error.indeterminate


class Settlements:
    """Settlements with unknown outcomes, by verb, message and token (I12)."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Held], None] = OrderedDict()

    def resolve(self, call: Call[list[Settlement]], held: Sequence[Held]) -> Call[list[Settlement]]:
        """The call; it is a repetition for those messages for which the same verb is indeterminate."""
        if not self._known:
            return call
        again = [(call.verb, one) in self._known for one in held]
        return replace(call, reader=partial(_read_each, call, again)) if any(again) else call

    def note(self, call: Call[R], held: Sequence[Held], error: BaseException) -> None:
        """Remember a call that ended in an error, if that leaves its outcome open."""
        if not is_indeterminate(error):
            return
        self._known.update(dict.fromkeys((call.verb, one) for one in held))
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def settle(self, call: Call[R], held: Sequence[Held]) -> None:
        """Forget a call whose outcome has become known."""
        if self._known:
            for one in held:
                self._known.pop((call.verb, one), None)


def _read_each(call: Call[list[Settlement]], again: Sequence[bool], reply: Any) -> list[Settlement]:
    """The settlements; only where a message is settled `again`, "before" and "gone" mean that it was done."""
    both = zip(call.reader(reply), repetition(call).reader(reply), again, strict=True)
    return [repeated if is_again else first for first, repeated, is_again in both]


class Claims(deque[tuple[int, str]]):
    """Processes and tokens of claims with unknown outcomes; any thread may take one (I12)."""

    def note(self, token: str) -> None:
        """Keep a claim of this process, until its next claim resumes it."""
        self.append((this_process(), token))

    def take(self) -> str:
        """The token of a claim of this process, which is no longer kept; empty: there is none."""
        while self:
            try:
                process, token = self.popleft()
            except IndexError:  # another thread was faster
                break
            if process == this_process():  # a forked child leaves its parent's claims alone
                return token
        return ""
