"""Renews the leases of batches from the driver, however long Spark works on them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rq_dlq.core.batches import batches
from rq_dlq.core.batches.renewal import PART
from rq_dlq.core.steps.driving import together
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.client.broker import Broker

logger = logging.getLogger("rq_dlq.spark")
NOT_HELD = (
    "%s: %s is done, but %d of its messages were no longer held. Either their lease expired (the driver was "
    "down, frozen or disconnected from Redis): they are redelivered, though the sink has them; a longer "
    "lease helps, and so does check_held() in the sink. Or they were acked, and a reply was lost"
)


def warn_of_lost(family: str, batch: str, messages: int) -> None:
    """Warn that a batch is done, but did not hold these messages any more."""
    logger.warning(NOT_HELD, family, batch, messages)


class Heartbeat:
    """Renews the leases of tokens until they are dropped, or the process ends.

    Args:
        lease: milliseconds.
    """

    def __init__(self, broker: Broker, lease: int) -> None:
        self._broker = broker
        self._lease = lease
        self._lock = threading.Lock()
        self._kept: dict[QueueKeys, set[str]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rq-dlq leases", daemon=True)
        self._thread.start()

    def keep(self, tokens: Mapping[QueueKeys, Sequence[str]]) -> None:
        """Renew the leases of these tokens until they are removed; those of new ones also now."""
        new: dict[QueueKeys, list[str]] = {}
        with self._lock:
            for keys, its in tokens.items():
                kept = self._kept.setdefault(keys, set())
                if some := [token for token in its if token not in kept]:
                    new[keys] = some
                    kept.update(some)
        self._renew(new)

    def drop(self, keys: QueueKeys, tokens: list[str]) -> None:
        """Stop renewing the leases of these tokens."""
        with self._lock:
            self._kept.get(keys, set()).difference_update(tokens)

    def stop(self) -> None:
        """Stop renewing; held messages lapse unless they are settled."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._lease / PART / 1000):
            with self._lock:
                kept = {keys: list(tokens) for keys, tokens in self._kept.items() if tokens}
            for keys, tokens in kept.items():
                try:
                    self._renew({keys: tokens})
                except RqDlqError as error:
                    logger.warning("%s: the leases of a batch were not renewed: %s", keys.family, error)
                except Exception:  # the thread must live: the other batches have only this one
                    logger.exception("%s: the leases of a batch were not renewed", keys.family)

    def _renew(self, tokens: Mapping[QueueKeys, Sequence[str]]) -> None:
        each = [batches.extend_batch(keys, its, self._lease) for keys, its in tokens.items()]
        for keys, over in zip(tokens, self._broker._run(together(each)), strict=True):
            self.drop(keys, over)
