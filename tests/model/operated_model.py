"""What operators do to a queue, said in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.model.message_model import Message
from tests.model.queue_model import Model


class OperatedModel(Model):
    """A queue that someone looks after."""

    def redrive(self, part: str, ids: Sequence[str], limit: int, before: float) -> list[str]:
        """Bring back the dead: the same message, a fresh budget."""
        chosen = self.chosen(part, ids, limit, before)
        for message in chosen:
            self.tell_expiry(message)
            self.revive(message)
            self.totals["redriven"] += 1
            self.tell("redriven")
            self.note(message, "redriven", 0)
        return [message.id for message in chosen]

    def revive(self, message: Message) -> None:
        message.part, message.reason, message.due, message.delay = "live", "", self.now, 0
        message.waits, message.rests, message.counts["charged"] = False, 0, 0
        message.counts["redriven"] += 1

    def purge(self, place: str, ids: Sequence[str], limit: int, before: float) -> list[str]:
        """Remove what waits."""
        chosen = self.chosen(place, ids, limit, before)
        for message in chosen:
            del self.messages[message.id]
            self.totals["purged"] += 1
            self.tell("purged")
        return [message.id for message in chosen]

    def dead_letter(self, place: str, ids: Sequence[str]) -> list[str]:
        """To the dead letters, by hand."""
        chosen = self.these(place, ids)
        for message in chosen:
            self.tell_expiry(message)
            self.note(message, "dead_lettered", 0)
            self.bury(message, "dead", "poison")
        return [message.id for message in chosen]

    def expire_now(self, place: str, ids: Sequence[str]) -> list[str]:
        """Expired, whatever their time to live."""
        chosen = self.these(place, ids)
        for message in chosen:
            self.bury(message, "expired", "expired")
        return [message.id for message in chosen]

    def deliver_now(self, ids: Sequence[str]) -> list[str]:
        """Ready at once, at the place where they were born."""
        chosen = self.these("scheduled", ids)
        for message in chosen:
            message.due, message.waits = min(self.now, message.number // 4096), False
        return [message.id for message in chosen]

    def prioritize(self, place: str, ids: Sequence[str], priority: int) -> list[str]:
        """Another priority."""
        chosen = self.these(place, ids)
        for message in chosen:
            message.priority = priority
        return [message.id for message in chosen]

    def transfer(self, other: Model, place: str, ids: Sequence[str], *, keep: bool) -> list[str]:
        """To another queue, but for what that one knows."""
        chosen = [message for message in self.these(place, ids) if message.id not in other.messages]
        for original in chosen:
            message = replace(
                original, counts=original.counts.copy(), story=original.story.copy(), passed_on=None
            )
            if keep:
                message.story = [("copied", self.now, 0, 0)]
            else:
                self.tell_expiry(message)
                self.note(message, "moved", 0)
                del self.messages[message.id]
                self.totals["moved"] += 1
                self.tell("moved")
            if message.part != "live":
                self.revive(message)
            if keep:  # nothing of its life but a time to live that is not over for good
                message.expires, message.delay = message.deadline, 0
                message.counts.clear()
            other.messages[message.id] = message
            other.totals["sent"] += 1
        return [message.id for message in chosen]

    def retire(self, limit: int) -> int:
        """Drop what was kept for as long as it was to be; how many."""
        retired = 0
        for place, kept_for in (("dead", self.settings.dead_for), ("expired", self.settings.expired_for)):
            if kept_for is None:
                continue
            for message in self.chosen(place, [], limit - retired, self.now - kept_for):
                self.discard(message)
                retired += 1
        return retired

    def pause(self, *, paused: bool) -> bool:
        """Hand out nothing, or go on; whether that changed anything."""
        changed, self.paused = self.paused != paused, paused
        return changed

    def reset(self) -> int:
        """The totals begin anew."""
        self.totals.clear()
        self.totals["sent"] = len(self.messages)
        return len(self.messages)

    def these(self, place: str, ids: Sequence[str]) -> list[Message]:
        """Those of the ids that are there."""
        return self.chosen(place, ids, len(ids), float("inf")) if ids else []
