"""Offsets of a stream of messages: which batches a query has come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq._work.batches import token_of
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


@dataclass(frozen=True, slots=True)
class Position:
    """The last batch of one queue.

    Attributes:
        batch: its number, from 1; 0: none yet.
        claims: of how many claims it is made.
        messages: how many it was given.
    """

    batch: int = 0
    claims: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a query has come.

    Attributes:
        query: drawn once for each checkpoint.
        queues: the last batch of each queue.
    """

    query: str
    queues: Mapping[str, Position]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read one that Spark has kept.

        Raises:
            InvalidInput: it is of a history, or of another source.
        """
        if not {"query", "queues"} <= value.keys():
            message = "the checkpoint is not of a stream of messages: another view or source needs a new one"
            raise InvalidInput(message)
        return cls(value["query"], {home: Position(**said) for home, said in value["queues"].items()})

    def as_json(self) -> dict[str, Any]:
        """As Spark keeps it. It holds no address."""
        queues = {
            home: {"batch": said.batch, "claims": said.claims, "messages": said.messages}
            for home, said in self.queues.items()
        }
        return {"query": self.query, "queues": queues}

    def name(self, number: int) -> str:
        """The name of a batch."""
        return f"{self.query}.{number}"

    def tokens(self, home: str) -> list[str]:
        """The tokens of a queue's last batch."""
        said = self.queues.get(home, Position())
        name = self.name(said.batch)
        return [token_of(name, home, number) for number in range(said.claims)]
