"""What operators do, on the server and in the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Literal

from rq_dlq._keys import QueueKeys
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.groups.calls import GroupPage
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.keyed.keyed import CANCELLED
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.steps.call import Call, Place, Sender
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.values.changed import Changed
from rq_dlq.values.message import Received
from tests.audit import audit
from tests.conftest import Clock
from tests.model.actions import IDS
from tests.model.driver import CAUSE, LIVE, LONG, PLACES, Driver
from tests.model.message_model import BLOCKED, Message
from tests.model.operated_model import OperatedModel
from tests.model.queue_settings import Settings

HOUR = 3_600_000  # milliseconds
COUNTS = ("nacked", "lapsed", "released", "redriven", "charged")


class OperatorSteps:
    """A part of the machine in `machine`: one queue, and another one to which messages are moved."""

    raw: Any
    clock: Clock
    queue: Driver
    keys: QueueKeys
    model: OperatedModel
    other: Driver
    other_model: OperatedModel
    told: bool
    one_sender: Sender
    numbered: list[tuple[Call[Any], Any]]

    def run(self, call: Call[Any], *, lost: bool = False) -> tuple[Any, Any]:
        """Run a call; where its reply is lost, once more; both replies."""
        reply = self.queue.run(call)
        return reply, self.queue.run(call, repeated=True) if lost else None

    def sender(self) -> Sender:
        """The one sender of the queue, with its next number."""
        self.one_sender.number += 1
        return self.one_sender

    def once(self, call: Call[Any]) -> Any:
        """Run the call of a sender. It may arrive once more, at any time after this (I12)."""
        self.numbered.append((call, reply := self.queue.run(call)))
        return reply

    def changes(self, call: Call[Changed]) -> Changed:
        """As `once`, of a verb on chosen messages: where it changed none, it takes no note."""
        if changed := self.queue.run(call):
            self.numbered.append((call, changed))
        return changed

    def there(self, place: str, chosen: list[str]) -> list[str]:
        """These ids; every other one as one of what is there, where something is."""
        present = sorted(message.id for message in self.model.at(place))
        return [
            present[IDS.index(message_id) % len(present)] if present and n % 2 == 0 else message_id
            for n, message_id in enumerate(chosen)
        ]

    def configure(self, settings: Settings) -> None:
        settings = replace(settings, per_key=self.model.settings.per_key)  # how it changes: model/lanes.py
        assert self.queue.run(self.queue.configure_call(settings.wire()))
        self.model.settings = settings

    def redrive(
        self, place: Literal["dead", "expired"], chosen: list[str], limit: int, age: int, lost: bool
    ) -> None:
        chosen = self.there(place, chosen)
        before = self.clock.now - age
        call = choosing_calls.redrive(
            self.sender(), place=place, by='"op"', ids=chosen, limit=limit, before=before
        )
        redriven, again = self.run(call, lost=lost)
        self.numbered += [(call, redriven)] if redriven else []
        assert redriven == len(self.model.redrive(place, chosen, limit, before))
        assert again is None or again == redriven

    def purge(self, place: Place, chosen: list[str], limit: int) -> None:
        chosen = self.there(place, chosen)
        call = choosing_calls.purge(self.sender(), place=place, ids=chosen, limit=limit)
        assert self.changes(call) == len(self.model.purge(place, chosen, limit))

    def cancel(self, place: Place, chosen: str) -> None:
        (message_id,) = self.there(place, [chosen])
        call = cancelling_calls.cancel(self.sender(), id=message_id)
        found, _ = self.run(call)
        assert found.word == self.model.cancel(message_id)
        if found.word == "cancelled":
            self.numbered.append((call, found))

    def dead_letter(self, place: Place, chosen: list[str]) -> None:
        chosen = self.there(place, chosen)
        call = choosing_calls.dead_letter(self.sender(), place=place, ids=chosen, by='"op"', cause=CAUSE)
        assert self.changes(call) == len(self.model.dead_letter(place, chosen))

    def expire_now(self, place: Place, chosen: list[str]) -> None:
        chosen = self.there(place, chosen)
        call = choosing_calls.expire_now(self.sender(), place=place, ids=chosen)
        assert self.changes(call) == len(self.model.expire_now(place, chosen))

    def deliver_now(self, chosen: list[str]) -> None:
        chosen = self.there("scheduled", chosen)
        delivered = self.changes(choosing_calls.deliver_now(self.sender(), ids=chosen))
        assert delivered == len(self.model.deliver_now(chosen))

    def prioritize(self, place: Place, chosen: list[str], priority: int) -> None:
        if blocked := self.model.blocked():
            place, chosen = "scheduled", [blocked[-1].id, *chosen]
        chosen = self.there(place, chosen)
        call = choosing_calls.prioritize(self.sender(), place=place, ids=chosen, priority=priority)
        assert self.changes(call) == len(self.model.prioritize(place, chosen, priority))

    def transfer(self, place: Place, chosen: list[str], keep: bool) -> None:
        chosen = self.there(place, chosen)
        call = choosing_calls.transfer(
            self.sender(), self.other.keys, place=place, ids=chosen, keep=keep, by='"op"', cause=CAUSE
        )
        moved = self.model.transfer(self.other_model, place, chosen, keep=keep)
        assert self.changes(call) == len(moved)
        self.other_agrees()

    def purge_other(self) -> None:
        """So that the other queue can be given these messages once more."""
        for place in LIVE:
            purged = self.other.run(choosing_calls.purge(self.other.sender(), place=place, limit=100))
            assert purged == len(self.other_model.purge(place, [], 100))
        self.other_agrees()

    def retire(self, limit: int) -> None:
        assert self.queue.run(upkeep_calls.retire(self.keys, limit=limit)) == self.model.retire(limit)

    def regroup(self, limit: int, lost_rows: bool) -> None:
        """Also where an earlier version, or a script that was cut off, left letters without a group."""
        if lost_rows:
            lose_groups(self.queue)
        while self.queue.run(upkeep_calls.regroup(self.keys, limit=limit)):
            pass

    def reindex(self, limit: int) -> None:
        """Where the indexes of what is over were deleted; the call of a cancelled message would hide one."""
        if self.model.places or any(holder.startswith(CANCELLED) for holder in self.model.seats):
            return
        lost = len(self.model.at("dead")) + len(self.model.at("expired"))
        self.model.totals.update({"reindexed": lost} if lost else {})
        for name in ("dead", "expired", "groups"):
            self.queue.raw.unlink(self.keys[name])
        while self.queue.run(upkeep_calls.reindex(self.keys, limit=limit)):
            pass

    def groups(self, limit: int) -> None:
        check_groups(self.queue, self.queue.run(group_calls.groups(self.keys, limit=limit)), limit)

    def pause(self, paused: bool) -> None:
        changed = self.model.pause(paused=paused)
        assert bool(self.queue.run(managing_calls.pause(self.keys, paused=paused))) == changed
        self.told = self.told or (changed and not paused)

    def reset(self) -> None:
        assert self.queue.run(managing_calls.reset(self.keys)) == self.model.reset()

    def other_agrees(self) -> None:
        check_places(self.other, self.other_model)
        audit(self.raw, "other")


def lose_groups(queue: Driver) -> None:
    """As if an earlier version had buried what is dead."""
    queue.raw.delete(queue.keys["groups"])


def check_groups(queue: Driver, page: GroupPage, limit: int) -> None:
    """The groups count the dead letters that are there."""
    letters = queue.browse("dead")
    groups = sorted(Counter(letter.fingerprint for letter in letters).items())
    assert page.whole
    assert [(group.name, group.count) for group in page.groups] == groups[:limit]
    assert bool(page.next) == (len(groups) > limit)
    for group in page.groups:
        times = [letter.due for letter in letters if letter.fingerprint == group.name]
        assert (group.first, group.last) == (min(times), max(times))
        assert group.hour == sum(time >= page.now - HOUR for time in times)


def check_places(queue: Driver, model: OperatedModel) -> None:
    """What waits in a queue is what the model says, in its order."""
    for place, there in zip(PLACES, queue.browse_all(PLACES), strict=True):
        expected = model.at(place)
        assert [message.id for message in there] == [message.id for message in expected], place
        for message, modelled in zip(there, expected, strict=True):
            same(message, modelled)
    blocked = queue.raw.zrangebyscore(queue.keys["scheduled"], BLOCKED, "+inf")
    assert [row[8:].decode() for row in blocked] == [message.id for message in model.blocked()], "blocked"
    seats = queue.raw.zrange(queue.keys["seats"], 0, -1, withscores=True)
    places = {f"\3{call[1:]}": keyed_calls.PLACES for call in model.places}
    assert {name.decode(): int(lane) for name, lane in seats} == {**model.seats, **places}, "seats"


def same(message: Received[Any], modelled: Message) -> None:
    """A message says of itself what the model says of it."""
    assert message.delivery_count == modelled.counts["delivered"]
    assert (message.attempt, message.redelivered) == (modelled.attempts, modelled.attempts > 1)
    counts = {name: getattr(message, name) for name in COUNTS}
    assert counts == {name: modelled.counts[name] for name in COUNTS}
    assert message.priority == modelled.priority
    assert message.data == (LONG.get(modelled.id, b"x") if modelled.body is None else modelled.body)
    assert (message._state.part, message._state.reason) == (modelled.part, modelled.reason)
    assert message._state.due in {modelled.due, 0 if modelled.due == modelled.number // 4096 else None}
    story = [
        (event.event, round(event.at.timestamp() * 1000), event.delivery, round(event.delay * 1000))
        for event in message.history
    ]
    assert story == modelled.history
    assert modelled.part != "dead" or message.fingerprint == message.cause.fingerprint
    assert not any(event.cause.traceback for event in message.history[:-1]), "an old traceback is kept"
