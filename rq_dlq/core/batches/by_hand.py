"""Manually claimed, unsettled messages, which are released when the broker is closed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from rq_dlq.core.batches.batches import release_batch
from rq_dlq.core.claiming.cut_off import log_failure
from rq_dlq.errors import RqDlqError
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Lease

MANY = 1_000  # claims after which those without referenced deliveries are forgotten


class HandClaims:
    """The manual claims of a broker, as long as the program refers to their deliveries.

    Loops, workers and Spark batches release their messages themselves.
    """

    def __init__(self) -> None:
        self._claims: dict[str, tuple[QueueState[Any], weakref.ref[Lease[Any]]]] = {}
        self._process = this_process()

    def note(self, queue: QueueState[Any], lease: Lease[Any]) -> None:
        """Note a claim that has taken messages."""
        if self._process != this_process():  # in a forked child, these are its parent's
            self._process, self._claims = this_process(), {}
        elif len(self._claims) >= MANY:
            self._claims = {token: its for token, its in self._claims.items() if its[1]() is not None}
        self._claims[lease.token] = (queue, weakref.ref(lease))

    def give_back(self) -> Steps[None]:
        """Release the held messages. Failures are only logged, since the leases end anyway."""
        claims, self._claims = self._claims, {}
        queues: dict[int, tuple[QueueState[Any], list[str]]] = {}
        for token, (queue, lease) in claims.items() if self._process == this_process() else ():
            if lease() is not None:
                queues.setdefault(id(queue), (queue, []))[1].append(token)
        for queue, tokens in queues.values():
            try:
                yield from release_batch(queue, tokens)
            except RqDlqError as failure:
                log_failure(queue, failure)
