"""Which messages of a key are ready, and which wait for a seat, said in plain Python.

The rules are those of lua/README.md ("Lanes"), for `order`, `order hold` and `limit N`.
"""

from __future__ import annotations

from collections.abc import Mapping

from rq_dlq.core.keyed.keyed import CANCELLED
from tests.model.message_model import Message
from tests.model.queue_settings import Settings

MOVED = 200  # messages that a script makes ready before it gives a seat


class KeyedModel:
    """The messages of a queue and their seats: `put` and `gone` alone change where one is.

    Attributes:
        lanes: the lane of each id that has a key.
        seats: the lane of each id that holds a seat, and of each call of a cancelled message (`call_of`).
        places: the calls of cancelled messages that count against `max_in_flight`.
    """

    def __init__(self, settings: Settings, now: int, lanes: Mapping[str, int]) -> None:
        self.settings = settings
        self.now = now
        self.lanes = lanes
        self.messages: dict[str, Message] = {}
        self.seats: dict[str, int] = {}
        self.places: set[str] = set()
        self.are_moving = False  # those that are due

    def at(self, place: str) -> list[Message]:
        """The messages at a place, in order."""
        return sorted((m for m in self.messages.values() if m.place == place), key=lambda m: m.rank)

    def blocked(self) -> list[Message]:
        """Those of the scheduled that are due and wait for a seat, lane by lane, in order."""
        return [message for message in self.at("scheduled") if message.blocked]

    def put(self, message: Message, *, waits: bool = False) -> None:
        """Where its part says; one that is due is ready with a seat, and blocked without."""
        if message.part == "live" and not waits and message.lane is not None:
            self.due_first(message)
        message.waits, message.let_in = waits, None
        message.blocked = message.part == "live" and not waits and not self.enters(message)
        if not self.keeps_seat(message):
            self.vacate(message.id)

    def gone(self, message: Message) -> None:
        """It left the queue."""
        del self.messages[message.id]
        self.vacate(message.id)

    def calls_of(self, token: str) -> int:
        """How many calls of cancelled messages run on with their seats or their places."""
        return sum(call.startswith(call_of(token, "")) for call in {*self.seats, *self.places})

    def end_call(self, token: str, message_id: str) -> None:
        """The call of a message that was cancelled, if it was, has ended."""
        self.places.discard(call_of(token, message_id))
        self.vacate(call_of(token, message_id))

    def enters(self, message: Message) -> bool:
        """Whether it may be ready: it holds a seat, or takes a free one, past nobody who waits for it."""
        lane = message.lane
        if lane is None or not self.settings.per_key:
            return True
        message.blocked = False
        if self.has_free_seat(lane) and not any(other.lane == lane for other in self.blocked()):
            self.seats[message.id] = lane
        return message.id in self.seats

    def has_free_seat(self, lane: int) -> bool:
        return [*self.seats.values()].count(lane) < self.settings.seats

    def keeps_seat(self, message: Message) -> bool:
        """Whether one that nobody holds keeps the seat that it has."""
        if message.part != "live":
            held = message.part == "dead" and message.reason != "expired"
            return held and self.settings.per_key == "order hold"
        return not message.waits or self.settings.per_key.startswith("order")

    def vacate(self, holder: str) -> None:
        """Its seat is given back, and the next of the lane is let in, behind all that is due by now."""
        lane = self.seats.get(holder)
        if lane is None:
            return
        if self.blocked():
            self.due_first()
        del self.seats[holder]
        for first in self.blocked():
            if first.lane == lane and self.has_free_seat(lane):
                self.seats[first.id] = lane
                first.blocked, first.let_in = False, self.now + 1

    def due_first(self, but: Message | None = None) -> None:
        """Before a seat is given: who was delayed, and is due by now, may be in front."""
        if self.settings.per_key and not self.are_moving:
            self.move_due(MOVED, but)

    def move_due(self, limit: int, but: Message | None = None) -> int:
        """The scheduled that are due become ready, in order; how many."""
        due = [m for m in self.at("scheduled") if m.waits and m.due <= self.now and m is not but][:limit]
        self.are_moving = True
        for message in due:
            self.put(message)
        self.are_moving = False
        return len(due)


def call_of(token: str, message_id: str) -> str:
    """Who holds the seat, or the place, of a call whose message was cancelled; as the seat in Redis."""
    return f"{CANCELLED}{token} {message_id}"
