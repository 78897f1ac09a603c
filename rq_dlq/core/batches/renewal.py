"""Renews the leases of a batch while more of it is claimed: no heartbeat has it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rq_dlq.core.batches import calls
from rq_dlq.core.steps.step import Steps, chunks

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.claiming.calls import Claimed

PART = 3  # leases are renewed when a third of their time has passed
PAGE = 500  # claims in one call that keeps them


class Renewal:
    """Renews the leases of the claims of a batch, in one queue or several.

    Args:
        lease: milliseconds.
    """

    def __init__(self, lease: int) -> None:
        self._lease = lease
        self._tokens: dict[QueueKeys, list[str]] = {}
        self._renewed = 0  # when, by the server's clock

    def note(self, keys: QueueKeys, token: str, claimed: Claimed) -> Steps[None]:
        """Note the reply of a claim. If a third of the lease has passed, renew the leases of all claims."""
        if not self._tokens:
            self._renewed = claimed.now
        if claimed.messages:
            self._tokens.setdefault(keys, []).append(token)
        if abs(claimed.now - self._renewed) * PART < self._lease:  # the clocks of a cluster's nodes differ
            return
        self._renewed = claimed.now
        for family, tokens in self._tokens.items():
            for page in chunks(tokens, PAGE):
                yield calls.extend_claim(family, page, lease=self._lease)
