"""A part of a queue that operators pause and resume: the messages with a key or a dependency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from rq_dlq.core.changing.by_chunks import WAITING
from rq_dlq.core.keyed import outages
from rq_dlq.values import outage
from rq_dlq.values.readable import many

if TYPE_CHECKING:
    from starlette.datastructures import FormData, QueryParams

    from rq_dlq.asyncio.dependency import Dependency
    from rq_dlq.asyncio.key import Key
    from rq_dlq.asyncio.queue import Queue
    from rq_dlq.values.masks import Masks

    Given = QueryParams | FormData

COUNTED = 10_000  # the most messages that the confirmation page counts


def check_visible(of: str, text: str, masks: Masks) -> None:
    """Check that pages show this key or dependency: otherwise it could be guessed.

    Raises:
        HTTPException: it is hidden.
    """
    if masks.value({of: text}) != {of: text}:
        raise HTTPException(400, f"this {of} is hidden on this page")


@dataclass(frozen=True, slots=True)
class FormLane:
    """The messages with the key or the dependency that a form names.

    Attributes:
        of: "key" or "dependency".
        text: the key or the dependency itself.
    """

    of: str
    text: str

    @classmethod
    def of_form(cls, given: Given, masks: Masks) -> FormLane | None:
        """Read a form; None: it is about the whole queue.

        Raises:
            HTTPException: it has a kind other than these, no text, or a text that is hidden.
        """
        of, text = str(given.get("of") or ""), str(given.get("text") or "")
        if not of:
            return None
        if of not in {"key", "dependency"} or not text:
            raise HTTPException(400, "name a key or a dependency: both a kind and its text")
        check_visible(of, text, masks)
        return cls(of, text)

    def __str__(self) -> str:
        return f"with the key {self.text}" if self.of == "key" else f"that need {self.text}"

    def among(self, queue: Queue[Any]) -> Key | Dependency:
        """The object that pauses and resumes these messages."""
        return queue.key(self.text) if self.of == "key" else queue.dependency(self.text)

    async def down(self, queue: Queue[Any], verb: str) -> str:
        """A warning if a resume would close the breaker of a dependency that is down; empty: it would not."""
        if self.of == "key" or verb != "resume":
            return ""
        at, found = await queue._broker._run(outages.read(queue._core, self.text))
        if found.condition not in {"down", "testing"}:
            return ""
        return (
            f"{outage.what(found, at)}. It probes by itself, and there is nothing to do. If you close it "
            f"now, {outage.if_closed(at)}"
        )

    async def effect(self, queue: Queue[Any], verb: str) -> str:
        """The effect of the action, in numbers."""
        if verb == "probe":
            return f"One of the messages {self} is delivered now. If it succeeds, the others follow."
        quoted = self.text.replace("'", "''")
        chosen = queue.select(where=f"{self.of} = '{quoted}'", places=WAITING, limit=COUNTED)
        waiting = await chosen.count()
        number = f"at least {many(waiting, 'message')}" if waiting == COUNTED else many(waiting, "message")
        if verb == "pause":
            return f"{number} {self} will wait until they are resumed. All others continue."
        if down := await self.down(queue, verb):
            return f"{down}. {number} {self} will be delivered, and they may be charged for the outage."
        how = "" if self.of == "key" else ", 32 at first, then as earlier ones succeed"
        return f"{number} {self} will be delivered as they are due{how}."
