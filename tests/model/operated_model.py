"""What operators do to a queue, said in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.model.keyed_model import call_of
from tests.model.message_model import Asked, Message
from tests.model.queue_model import Model


class OperatedModel(Model):
    """A queue that someone looks after."""

    def redrive(self, part: str, ids: Sequence[str], limit: int, before: float) -> list[str]:
        """Bring back the dead: the same message, a fresh budget."""

        def act(message: Message) -> None:
            self.tell_expiry(message)
            self.revive(message)
            self.put(message)
            self.totals["redriven"] += 1
            self.tell("redriven")
            self.note(message, "redriven", 0)

        return self.each_chosen(part, ids, act, limit=limit, before=before)

    def resend(
        self, items: Sequence[tuple[str, int]], mode: str, *, delay: int, ttl: int, body: bytes, most: int
    ) -> dict[int, tuple[str, str | None]]:
        """Send, and do to the known ones what the mode says; where these were, and what was done.

        Args:
            most: of a debounce, milliseconds since the first send.
        """
        seen, new = set[str](), dict[int, tuple[str, int]]()
        for place, item in enumerate(items):
            if item[0] not in self.messages and item[0] not in seen:
                new[place] = item
            seen.add(item[0])
        places = [*new]
        first = {message_id: place for place, (message_id, _) in new.items()}
        known = self.send(new.values(), delay=delay, ttl=ttl)
        answers: dict[int, tuple[str, str | None]] = {places[n]: (where, None) for n, where in known.items()}
        for n, place in enumerate(places):
            if n not in known:
                self.messages[new[place][0]].body = body
        expires = self.now + ttl if (ttl := self.settings.allowed(ttl)) else None
        for place, (message_id, priority) in enumerate(items):
            if place not in new and message_id not in self.messages:  # acked, and named twice
                answers[place] = answers[first[message_id]]
            elif place not in new:
                message = self.messages[message_id]
                where = message.place
                did = self.known(message, mode, priority, body, delay, expires, most)
                self.totals["known"] += where == "dead" and did is None
                answers[place] = (where, did)
        return answers

    def known(  # noqa: PLR0917 - of a send
        self, m: Message, mode: str, priority: int, body: bytes, delay: int, expires: int | None, most: int
    ) -> str | None:
        """What a send does to a message that the queue has."""
        if m.place in {"ready", "scheduled"} and mode in {"replace", "debounce"}:
            first = not m.counts["delivered"] and not m.counts["redriven"]
            anew = mode == "debounce" and first and m.waits and m.due > self.now
            moves, is_ready = priority != m.priority, m.place == "ready"
            m.take(priority, body, expires)
            if anew:
                wait = max(0, min(delay, m.number // 4096 + most - self.now))
                m.due = self.later(wait, m.number)
                self.put(m, waits=m.due > self.now)
            elif moves and is_ready:
                self.put(m)
            self.totals["replaced"] += 1
            return "postponed" if anew else "replaced"
        if m.place in {"dead", "expired"} and mode == "redrive":
            self.tell_expiry(m)
            self.note(m, "redriven", 0)
            self.revive(m)
            m.take(priority, body, expires)
            m.due = self.later(delay, m.number) if delay else self.now
            self.put(m, waits=delay > 0)
            self.totals["redriven"] += 1
            self.tell("redriven")
            return "redriven"
        if m.place == "leased" and m.part == "live" and mode == "again":
            if m.again is None:
                self.last = max(self.now * 4096, self.last + 1)
            number = m.again.number if m.again else self.last
            m.again = Asked(number, priority, body, self.now + delay if delay else None, expires)
            return "again"
        return None

    def revive(self, message: Message) -> None:
        message.part, message.reason, message.due, message.delay = "live", "", self.now, 0
        message.rests, message.counts["charged"], message.ends = 0, 0, None
        message.counts["redriven"] += 1

    def purge(self, place: str, ids: Sequence[str], limit: int) -> list[str]:
        """Remove what waits."""

        def act(message: Message) -> None:
            self.gone(message)
            self.totals["purged"] += 1
            self.tell("purged")

        return self.each_chosen(place, ids, act, limit=limit)

    def cancel(self, message_id: str) -> str:
        """Take it back; what became of it, or where it stays. A call keeps seat and place until it ends."""
        message = self.messages.get(message_id)
        if message is None:
            return "acked" if self.remembers(message_id) else "unknown"
        if message.part != "live":
            return message.part
        if message.holder is not None and message_id in self.seats:
            self.seats[call_of(message.holder, message_id)] = self.seats[message_id]
        if message.holder is not None and self.settings.max_in_flight is not None:
            self.places.add(call_of(message.holder, message_id))
        self.gone(message)
        if message.holder is not None:
            self.let_go(message.holder)
        self.totals["cancelled"] += 1
        self.tell("cancelled")
        return "cancelled"

    def dead_letter(self, place: str, ids: Sequence[str]) -> list[str]:
        """To the dead letters, by hand."""

        def act(message: Message) -> None:
            self.tell_expiry(message)
            self.note(message, "dead_lettered", 0)
            self.bury(message, "dead", "poison")

        return self.each_of(place, ids, act)

    def expire_now(self, place: str, ids: Sequence[str]) -> list[str]:
        """Expired, whatever their time to live."""
        return self.each_of(place, ids, lambda message: self.bury(message, "expired", "expired"))

    def deliver_now(self, ids: Sequence[str]) -> list[str]:
        """Ready at once, at the place where they were born; who is blocked stays so."""

        def act(message: Message) -> bool:
            if message.blocked:
                return False
            message.due = min(self.now, message.number // 4096)
            self.put(message)
            return True

        return self.each_chosen("scheduled", ids, act, limit=0, let_in=False)

    def prioritize(self, place: str, ids: Sequence[str], priority: int) -> list[str]:
        """Another priority; who is blocked stays so, at another place of its lane."""

        def act(message: Message) -> None:
            is_ready, message.priority = message.place == "ready", priority
            if is_ready:
                self.put(message)

        return self.each_of(place, ids, act)

    def transfer(self, other: Model, place: str, ids: Sequence[str], *, keep: bool) -> list[str]:
        """To another queue, but for what that one knows."""

        def act(original: Message) -> bool:
            if original.id in other.messages:
                return False
            waits = original.place == "scheduled"
            message = replace(
                original,
                counts=original.counts.copy(),
                story=original.story.copy(),
                passed_on=None,
                uncharged=0,
            )
            if keep:
                message.story = [("copied", self.now, 0, 0)]
            else:
                self.tell_expiry(message)
                self.note(message, "moved", 0)
                self.gone(original)
                self.totals["moved"] += 1
                self.tell("moved")
            if message.part != "live":
                self.revive(message)
            if keep:  # nothing of its life but a time to live that is not over for good
                message.expires, message.delay = message.deadline, 0
                message.counts.clear()
            other.messages[message.id] = message
            other.put(message, waits=waits)
            other.totals["sent"] += 1
            return True

        return self.each_of(place, ids, act)

    def retire(self, limit: int) -> int:
        """Drop what was kept for as long as it was to be; how many."""
        retired = 0
        for place, kept_for in (("dead", self.settings.dead_for), ("expired", self.settings.expired_for)):
            if kept_for is None:
                continue
            left, before = limit - retired, self.now - kept_for
            retired += len(self.each_chosen(place, [], self.discard, limit=left, before=before))
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

    def each_of(self, place: str, ids: Sequence[str], visit: Callable[[Message], object]) -> list[str]:
        """Visit these; no ids: none."""
        return self.each_chosen(place, ids, visit, limit=0)
