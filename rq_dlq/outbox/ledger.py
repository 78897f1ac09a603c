"""What a relay needs of a database."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from rq_dlq.core.steps.senders import NONCE
from rq_dlq.outbox.noted import CLUSTER, RelayCalls, place_of

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.base import BrokerBase
    from rq_dlq.outbox.noted import NotedCall, UnnotedRow

AT_ONCE = 1_000  # rows that are noted in one transaction


class DatabaseUnavailable(Exception):  # noqa: N818 - like BrokerUnavailable; never leaves the relay
    """The database cannot be used now."""


class Behind(NamedTuple):
    """How far a relay is behind.

    Attributes:
        rows: that are not sent yet, as far as the relay sees them.
        oldest: how long ago the first of these was written, seconds.
    """

    rows: int
    oldest: float


class Ledger(ABC):
    """The tables of an outbox, by one connection. Each method is one transaction."""

    taken: type[Exception]  # a row with this key is there

    def __init__(
        self,
        name: str,
        begin: Callable[[], AbstractContextManager[object]],
        ask: Callable[[str], Any] | None,
        address: Sequence[object],
    ) -> None:
        """Begin.

        Args:
            begin: a transaction, which an error rolls back.
            ask: one value of PostgreSQL; None: the database is another one.
            address: where the database is.
        """
        self._name = name
        self._begin = begin
        self._ask = ask
        cluster = None
        if ask is not None:
            with suppress(Exception), begin():  # a host may not tell
                cluster = ask(CLUSTER)
        self._place = place_of(*address, cluster)

    def lock(self) -> bool:
        """Try to become the only relay at work, as long as the connection lives.

        Correctness does not rest on it: two relays that both believe to have it make the same calls, and
        Redis carries out each once. A database without such locks answers True.
        """
        number = int.from_bytes(blake2b(self.read().sender.encode(), digest_size=8).digest(), signed=True)
        with self._begin():
            return self._ask is None or bool(self._ask(f"SELECT pg_try_advisory_lock({number})"))

    def read(self) -> RelayCalls:
        """What is noted; the first time, a new sender."""
        with self._begin():
            found = self._noted()
        if found is not None:
            return RelayCalls.read(*found, self._place)
        first = RelayCalls(f"outbox.{secrets.token_urlsafe(NONCE)}", 0, place=self._place)
        try:
            with self._begin():
                self._insert({"outbox": self._name, "sender": first.sender, "last": 0, "calls": first.text})
        except self.taken:  # another relay came first
            return self.read()
        return first

    def advance(self, seen: RelayCalls, done: Sequence[NotedCall], floor: int) -> RelayCalls:
        """Delete the rows of calls that are done, and note calls for others.

        Returns:
            What is noted now. If another relay changed it, nothing was done.
        """
        with suppress(_StaleError), self._begin():
            for call in done:
                self._delete(call.rows)
            left = seen.without(done)
            noted = left.adding(self._waiting({call.queue for call in left.calls}), floor)
            if noted != seen and not self._note(seen, {"last": noted.last, "calls": noted.text}):
                raise _StaleError
            return noted
        return self.read()

    def load(self, call: NotedCall) -> list[tuple[str, bytes]]:
        """The ids and payloads of the rows of a call, in order."""
        with self._begin():
            return self._load(call.rows)

    def behind(self) -> Behind:
        """How far the relay is behind."""
        with self._begin():
            rows, first, now = self._counted()
        return Behind(rows, max(0.0, (now - first).total_seconds()) if first else 0.0)

    @abstractmethod
    def _noted(self) -> tuple[str, int, str] | None:
        """The sender, the last number and the calls."""

    @abstractmethod
    def _insert(self, values: dict[str, Any]) -> None: ...

    @abstractmethod
    def _note(self, seen: RelayCalls, values: dict[str, Any]) -> bool:
        """Change what is noted, if it still is what was seen."""

    @abstractmethod
    def _waiting(self, held: set[str]) -> list[UnnotedRow]:
        """The next rows, without those of queues that calls are noted for.

        A row whose transaction was committed late may have a lower number than others that are gone: so this
        never begins above a number.
        """

    @abstractmethod
    def _delete(self, rows: Sequence[int]) -> None: ...

    @abstractmethod
    def _load(self, rows: Sequence[int]) -> list[tuple[str, bytes]]: ...

    @abstractmethod
    def _counted(self) -> tuple[int, datetime | None, datetime]:
        """The number of rows, when the first was written, and the time now."""


class _StaleError(Exception):
    """Another relay has changed what is noted."""


@runtime_checkable
class Relayed(Protocol):
    """An outbox, as its relay sees it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def broker(self) -> BrokerBase:
        """The broker of its queues."""
        ...

    def with_ledger(self, work: Callable[[Ledger], Any]) -> None:
        """Connect to the database, and do this.

        Raises:
            DatabaseUnavailable: the database does not answer, or refuses; `work` was interrupted.
        """
        ...
