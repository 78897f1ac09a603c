"""Offsets of a stream of messages: the last batch of each queue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec.structs import replace

from rq_dlq.core.batches.batches import tokens_at
from rq_dlq.errors import InvalidInput, UpgradeRequired
from rq_dlq.values.version import __version__

if TYPE_CHECKING:
    from rq_dlq.core.batches.batches import ClaimedBatch

FORMAT = 1  # the format of the text that Spark stores
_OF_A_QUERY = re.compile(r"([^.@]+)\.[0-9]+\.[0-9]+@")  # see `Offset.next` and `token_of`


def query_of(token: str) -> str | None:
    """The query that has a claim with this token in a batch; None: no query has."""
    found = _OF_A_QUERY.match(token)
    return found and found[1]


def check_format(offset: object) -> None:
    """Refuse an offset, of messages or of a history, that a later version has stored."""
    form = isinstance(offset, Mapping) and offset.get("format")
    if isinstance(form, int) and form > FORMAT:  # otherwise the id of an event of a queue "format"
        raise later(f"it has format {form}")


def later(why: str) -> UpgradeRequired:
    """The error for an offset of a later version."""
    return UpgradeRequired(
        f"a later version of rq_dlq wrote the checkpoint ({why}): this is {__version__}, which reads formats "
        f"up to {FORMAT}. Upgrade this program; until then the checkpoint is left as it is"
    )


def is_offset(value: object) -> bool:
    """Whether Spark has this from a stream of messages, and not from another view or source."""
    return isinstance(value, Mapping) and {"query", "queues"} <= value.keys()


def family_of(token: str | None, usual: str = "") -> str:
    """The queue that the token of a row names; `usual`, if it names none. A row must have one."""
    if token and (family := token.partition("@")[2] or usual):
        return family
    raise InvalidInput(
        "a row has no batch that names its queue: pass on the columns id and batch of rows that a stream or "
        "claim() has read"
    )


class QueueOffset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last batch of one queue.

    Attributes:
        batch: its number, from 1; 0: none yet.
        claims: how many claims it consists of.
        messages: how many it had when it was claimed.
        before: how many claims the batch before it consists of, which may not be acked yet.
    """

    batch: int = 0
    claims: int = 0
    messages: int = 0
    before: int = 0


class Offset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The progress of a query.

    Attributes:
        query: its id, drawn once for each checkpoint.
        queues: the last batch of each queue.
        format: the format of the stored text; 0: before it was noted. An offset without a new batch keeps it,
            since Spark would take another text for new messages.
    """

    query: str
    queues: Mapping[str, QueueOffset]
    format: int = 0

    @classmethod
    def of(cls, value: Any) -> Self:
        """Read an offset that Spark has stored, maybe of another stream, or by another version."""
        check_format(value)
        if not is_offset(value):
            message = "the checkpoint is not of a stream of messages: another view or source needs a new one"
            raise InvalidInput(message)
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise later(str(error)) from None

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark stores it. It has no address."""
        stored: dict[str, Any] = msgspec.to_builtins(self)
        return stored

    @property
    def read(self) -> list[str]:
        """The queues whose batches it has."""
        return [family for family, last in self.queues.items() if last.batch]

    def position(self, family: str) -> QueueOffset:
        """The last batch of a queue."""
        return self.queues.get(family, QueueOffset())

    def since(self, start: Self) -> list[str]:
        """The queues that have a new batch since another offset."""
        return [family for family in self.queues if self.position(family) != start.position(family)]

    def after(self, batches: Sequence[ClaimedBatch]) -> Self:
        """The offset after these batches, the next of their queues."""
        if not batches:
            return self
        queues = dict(self.queues)
        for batch in batches:
            last = self.position(batch.family)
            queues[batch.family] = QueueOffset(last.batch + 1, len(batch.sizes), batch.messages, last.claims)
        return replace(self, queues=queues, format=FORMAT)

    def next(self, family: str) -> str:
        """The name of a queue's next batch."""
        return f"{self.query}.{self.position(family).batch + 1}"

    def tokens(self, family: str) -> list[str]:
        """The tokens of a queue's last batch."""
        last = self.position(family)
        return tokens_at(f"{self.query}.{last.batch}*{last.claims}", family)

    def tokens_before(self, family: str) -> list[str]:
        """The tokens of the batch before it."""
        last = self.position(family)
        return tokens_at(f"{self.query}.{last.batch - 1}*{last.before}", family)
