"""Settlements whose outcome is not known: who says one again is told that it was done (I12)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from rq_dlq import _calls
from rq_dlq.errors import BrokerRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._calls import Call, Held

R = TypeVar("R")
MOST = 10_000  # that are remembered; who never says them again shall not fill the memory


class Doubts:
    """What may have been settled under a token without anybody being told (I12)."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Held], None] = OrderedDict()

    def resolve(self, call: Call[R], held: Sequence[Held]) -> Call[R]:
        """The call; as a repetition where all that it settles is in doubt by the same verb."""
        if self._known and all((call.script, one) in self._known for one in held):
            return _calls.repetition(call)
        return call

    def note(self, call: Call[R], held: Sequence[Held], error: BaseException) -> None:
        """It ended in this error; unless the server refused it, it may have been done."""
        if isinstance(error, BrokerRefused):
            return
        self._known.update(dict.fromkeys((call.script, one) for one in held))
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def settle(self, call: Call[R], held: Sequence[Held]) -> None:
        """Its outcome is known."""
        if self._known:
            for one in held:
                self._known.pop((call.script, one), None)
