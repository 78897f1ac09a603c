"""The part that all queue objects of one broker share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rq_dlq.core.queues.blocked import Blocked
from rq_dlq.core.queues.observers import Observers
from rq_dlq.core.steps.senders import Senders
from rq_dlq.values.codec import Ids
from rq_dlq.values.failure import Cause
from rq_dlq.values.fingerprint import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rq_dlq.core.steps.confirm import Confirm

logger = logging.getLogger("rq_dlq")


@dataclass
class Client:
    """The part that all queue objects of one broker share.

    Attributes:
        ids: draws the ids of messages.
        senders: number the calls that take effect once.
        blocked: what the broker has already warned of.
        observers: are shown what is sent, handled and settled.
        confirm: the replicas that must confirm a send; None: no confirmation.
        fingerprint: names the kind of an exception, as the user sees it.
        version: the program's version, which its failures have; empty: none.
    """

    ids: Ids = field(default_factory=Ids)
    senders: Senders = field(default_factory=Senders)
    blocked: Blocked = field(default_factory=Blocked)
    observers: Observers = field(default_factory=Observers)
    confirm: Confirm | None = None
    fingerprint: Callable[[BaseException], str | None] | None = None
    version: str = ""

    def cause(self, name: str, error: BaseException | str | None, values: Iterable[str] = ()) -> Cause:
        """The cause of a failure.

        Args:
            name: of the queue, for the log.
            values: texts from the failing messages.
        """
        cause = replace(Cause.of(error, values), version=self.version)
        if self.fingerprint is None or not isinstance(error, BaseException):
            return cause
        try:
            kind = self.fingerprint(error)
        except Exception:
            logger.exception("%s: the broker's fingerprint failed, so this failure has the usual one", name)
            return cause
        return cause if kind is None else replace(cause, fingerprint=chosen(str(kind)))
