"""Offsets of a stream of messages: the last batch of each queue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from rq_dlq._work.batches import token_of
from rq_dlq.errors import InvalidInput

_OF_A_QUERY = re.compile(r"([^.@]+)\.[0-9]+\.[0-9]+@")  # see `Offset.name` and `token_of`


def query_of(token: str) -> str | None:
    """The query that has a claim with this token in a batch; None: no query has."""
    found = _OF_A_QUERY.match(token)
    return found and found[1]


@dataclass(frozen=True, slots=True)
class Position:
    """The last batch of one queue.

    Attributes:
        batch: its number, from 1; 0: none yet.
        claims: how many claims it consists of.
        messages: how many it had when it was claimed.
    """

    batch: int = 0
    claims: int = 0
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Offset:
    """The progress of a query.

    Attributes:
        query: its id, drawn once for each checkpoint.
        queues: the last batch of each queue.
    """

    query: str
    queues: Mapping[str, Position]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read an offset that Spark has stored.

        Raises:
            InvalidInput: it belongs to a stream of a history, or to another source.
        """
        if not {"query", "queues"} <= value.keys():
            message = "the checkpoint is not of a stream of messages: another view or source needs a new one"
            raise InvalidInput(message)
        return cls(value["query"], {family: Position(**known) for family, known in value["queues"].items()})

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark stores it. It has no address."""
        return asdict(self)

    def name(self, number: int) -> str:
        """The name of a batch."""
        return f"{self.query}.{number}"

    def tokens(self, family: str) -> list[str]:
        """The tokens of a queue's last batch."""
        last = self.queues.get(family, Position())
        name = self.name(last.batch)
        return [token_of(name, family, number) for number in range(last.claims)]
