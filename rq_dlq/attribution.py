"""Crash attribution: of what a consumer held when it died, only what it had begun is charged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rq_dlq import _calls
from rq_dlq._redis import Notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq import _work
    from rq_dlq._redis import Connections
    from rq_dlq.message import Leased


@dataclass(slots=True)
class Claim:
    """One claim: how many of its calls have not ended, and the ids of those that run, in their order."""

    left: int
    running: dict[str, None] = field(default_factory=dict[str, None])


class Attribution:
    """Says which messages of a claim are worked on, each before its handler begins; for one thread.

    It costs no round trip. A handler never waits for it: where Redis was not told, since the connection was
    lost or Redis is slow, its message counts as not begun.

    Args:
        connections: that do not wait long.
        abreast: several claims at a time, whose calls run side by side: so it is told, too, when all of one
            have ended, since they wait for their ack while others begin. Else a claim of one message needs
            no word.
    """

    def __init__(self, queue: _work.Queue[Any], connections: Connections, *, abreast: bool = False) -> None:
        self._queue = queue
        self._abreast = abreast
        self._notes = Notes(connections, _calls.begin(queue.keys, "", [""]))
        self._claims: dict[str, Claim] = {}  # by their tokens

    def prompt(self) -> bool:
        """Whether a claim can be attributed, as far as is seen without waiting."""
        return self._notes.prompt()

    def ready(self, count: int) -> bool:
        """Whether a claim of up to so many messages is to be attributed; connects where that is needed."""
        return self.wanted(count) and self._notes.open()

    def wanted(self, count: int) -> bool:
        """Whether a claim of up to so many messages is one to be attributed."""
        return (count > 1 or self._abreast) and self._queue.part == "live" and not self._queue.view

    def take(self, deliveries: Sequence[Leased[Any]]) -> None:
        """An attributed claim gave these."""
        if not self._abreast:
            self._claims.clear()
        if deliveries:
            self._claims[deliveries[0].token] = Claim(len(deliveries))

    def begin(self, delivery: Leased[Any]) -> None:
        """Its handler begins now."""
        if claim := self._claims.get(delivery.token):
            claim.running[delivery.id] = None
            if not delivery.begun:
                self._say(delivery.token, claim)

    def end(self, delivery: Leased[Any]) -> None:
        """It is done, or settled."""
        if claim := self._claims.get(delivery.token):
            del claim.running[delivery.id]
            claim.left -= 1
            if not claim.left:
                del self._claims[delivery.token]
                if self._abreast:
                    self._say(delivery.token, claim)

    def close(self) -> None:
        """Close the connection."""
        self._notes.close()

    def _say(self, token: str, claim: Claim) -> None:
        self._notes.send(_calls.begin(self._queue.keys, token, list(claim.running)))
