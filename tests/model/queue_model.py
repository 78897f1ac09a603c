"""What a queue does, said in plain Python: the semantics without Redis, bytes or indexes.

A queue is a dict of messages; everything else follows. Read `judge` for what becomes of a failure and `rank`
for the order. Times are milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rq_dlq import RedeliveryPolicy
from tests.model.keyed_model import KeyedModel, call_of
from tests.model.message_model import Asked, Message, draws
from tests.model.queue_settings import Settings

STEPS = 10  # messages that a claim moves at most in each step of maintenance
BEHIND = 15  # messages that a thorough claim sweeps besides where it does nothing else
PAST = 1_000  # suspects that a claim looks past at most
REST = 1_000  # milliseconds that a dead letter rests at least
FIRST, LONGEST, PATIENCE = 1_000, 60_000, 600_000  # milliseconds: rests of what was passed on, and all


class Model(KeyedModel):
    """One queue with its dead letters and its expired messages."""

    def __init__(self, settings: Settings, now: int, lanes: Mapping[str, int]) -> None:
        super().__init__(settings, now, lanes)
        self.paused = False
        self.room_was = 0  # for the last claim
        self.leases: dict[str, int] = {}  # token: when it lapses
        self.claims: dict[str, list[str]] = {}  # token: what it was given
        self.by_worker: set[str] = set()  # tokens of the claims that a worker made
        self.only_suspects = False  # for the last claim, which might take none
        self.behind = False  # it left lapsed leases
        self.totals: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()  # the events of the outcome history
        self.acked: dict[str, int] = {}  # ids that are remembered: when they were acked
        self.last = 0

    def held_by(self, token: str) -> list[Message]:
        """What a token holds, in the order in which it was given."""
        given = (self.messages.get(message_id) for message_id in self.claims.get(token, ()))
        return [m for m in given if m is not None and m.holder == token]

    def next_event(self) -> int | None:
        """When the next thing falls due."""
        waiting = [m for m in self.messages.values() if m.place in {"ready", "scheduled"}]
        times = [m.due for m in waiting if m.waits] + [m.deadline for m in waiting if m.deadline]
        return min([*times, *self.leases.values()], default=None)

    # The verbs

    def knows(self, message_id: str) -> bool:
        """Whether a send under this id adds nothing."""
        return message_id in self.messages or self.remembers(message_id)

    def send(
        self, items: Iterable[tuple[str, int]], *, delay: int, ttl: int, persistent: bool = True
    ) -> dict[int, str]:
        """Add messages, (id, priority) each; where those were that were known, by their number."""
        known, ttl = dict[int, str](), self.settings.allowed(ttl)
        items = list(items)
        if (
            not delay
            and self.settings.per_key
            and any(n in self.lanes and not self.knows(n) for n, _ in items)
        ):
            self.due_first()
        for place, (message_id, priority) in enumerate(items):
            if self.knows(message_id):
                known[place] = self.messages[message_id].place if message_id in self.messages else "acked"
                self.totals["known"] += known[place] == "dead"
                continue
            self.last = number = max(self.now * 4096, self.last + 1)
            due = self.later(delay, number) if delay else number // 4096
            expires = self.now + ttl if ttl else None
            lane = self.lanes.get(message_id)
            message = Message(message_id, number, priority, due, expires, not persistent, lane=lane)
            self.messages[message_id] = message
            self.put(message, waits=delay > 0)
            self.totals["sent"] += 1
        return known

    def take_up(self, message: Message) -> None:
        """The next attempt is the run that was asked for."""
        if again := message.again:
            message.take(again.priority, again.body, again.expires)
            message.again = None

    def put_back(self, message: Message, again: Asked) -> None:
        """The run that was asked for, as new; the others of its key are in front of it."""
        waits = again.due is not None and again.due > self.now
        due = self.later((again.due or 0) - self.now, again.number) if waits else self.now
        self.vacate(message.id)
        new = Message(message.id, again.number, again.priority, due, again.expires, lane=message.lane)
        new.body = again.body
        self.messages[new.id] = new
        self.put(new, waits=waits)
        self.totals["sent"] += 1
        self.totals["again"] += 1

    def claim(
        self,
        token: str,
        part: str,
        count: int,
        lease: int,
        seed: float,
        *,
        suspects: str = "all",
        thorough: bool = False,
    ) -> list[str]:
        """Hand out up to `count` messages, or again what the token was given before; the ids.

        A thorough claim hands out nothing before all lapsed leases are swept.
        """
        self.only_suspects = self.behind = False
        if not self.held_by(token):
            self.behind = self.lapsed_lines() > STEPS
            if self.behind and thorough:
                self.sweep(STEPS + BEHIND, seed)
                return []
            self.sweep(STEPS, seed)
            self.promote(STEPS + count)
            self.expire(STEPS)
            room = self.room_was = self.room(count) if part == "live" else count
            given = self.take(token, part, room, suspects)
            self.claims[token] = given
            if given and suspects != "all":
                self.by_worker.add(token)
        if held := self.held_by(token):
            self.leases[token] = self.now + lease
        return [message.id for message in held]

    def take(self, token: str, part: str, room: int, suspects: str) -> list[str]:
        """Hand out what stands first; a worker takes one suspect, alone, or looks past them."""
        past = PAST if suspects == "none" else 0
        standing = [m for m in self.at("ready" if part == "live" else part) if m.rests <= self.now]
        head = standing[: room and room + past]
        given, passed = self.take_of(head, part, room, suspects, token)
        self.only_suspects = 0 < passed == len(head)
        return given

    def take_of(
        self, head: list[Message], part: str, room: int, suspects: str, token: str
    ) -> tuple[list[str], int]:
        """Of these; and past how many suspects it looked."""
        given: list[str] = []
        taken = passed = 0
        for message in head:
            charged = message.counts["charged"]
            suspect = suspects != "all" and message.counts["lapsed"] > 0
            alone = False
            if part == "live" and charged and self.settings.policy.spent(charged):
                self.bury(message, "dead", "exhausted")  # the limit was lowered since
                taken += 1
            elif not suspect or (suspects == "alone" and not given):
                message.holder = token
                message.counts["delivered"] += 1
                given.append(message.id)
                taken, alone = taken + 1, suspect
            else:
                passed, alone = passed + 1, suspects == "alone"
            if alone or taken == room:
                break
        return given, passed

    def room(self, count: int) -> int:
        """How many a claim may take."""
        if self.paused:
            return 0
        most = self.settings.max_in_flight
        return count if most is None else max(0, min(count, most - len(self.at("leased")) - len(self.places)))

    def ack(self, held: Iterable[tuple[str, str]]) -> list[str]:
        """Done."""

        def act(message: Message) -> str:
            if message.again:
                self.put_back(message, message.again)
            else:
                self.gone(message)
            self.totals["acked"] += 1
            self.tell("acked")
            acked.append(message.id)
            return "acked"

        acked: list[str] = []
        said = self.settle(held, act, acks=True)
        self.remember(acked)
        return said

    def remember(self, ids: list[str]) -> None:
        """Where the settings say so; of those whose time is over, twice as many go."""
        window = self.settings.dedup_window
        if window is not None and ids:
            self.acked.update(dict.fromkeys(ids, self.now))
            over = sorted((at, name) for name, at in self.acked.items() if at <= self.now - window)
            for _, name in over[: 2 * len(ids)]:
                del self.acked[name]

    def remembers(self, message_id: str) -> bool:
        """Whether a message of this id was acked a short time ago."""
        window, at = self.settings.dedup_window, self.acked.get(message_id)
        return window is not None and at is not None and at > self.now - window

    def nack(
        self, held: Iterable[tuple[str, str]], *, delay: int | None, charge: bool, seed: float
    ) -> list[str]:
        """Failed."""
        drawn = draws(seed)
        return self.settle(held, lambda m: self.judge(m, "nacked", drawn, charge=charge, delay=delay))

    def poison(self, held: Iterable[tuple[str, str]], reason: str, seed: float) -> list[str]:
        """Never again."""
        drawn = draws(seed)

        def act(message: Message) -> str:
            if message.part != "live":
                return self.judge(message, "nacked", drawn, charge=True, delay=None)
            self.note(message, "poisoned", 0)
            return self.bury(message, "dead", reason)

        return self.settle(held, act)

    def release(self, held: Iterable[tuple[str, str]], *, begun: bool) -> list[str]:
        """Given back: not charged, at its old place; untried, if nobody had begun it."""
        return self.settle(held, lambda message: self.give_back(message, begun=begun))

    def give_back(self, message: Message, *, begun: bool) -> str:
        """At its old place."""
        self.count(message, "released")
        message.counts["untried"] += not begun
        message.passed_on = None if begun else message.passed_on
        message.uncharged *= not begun
        self.tell("released")
        message.rests = 0
        self.put(message)
        return "released"

    def pass_on(self, held: Iterable[tuple[str, str]], mark: str, takers: Sequence[str]) -> list[str]:
        """Given back untried, to rest for others; dead when nobody has taken it for long enough."""

        def act(message: Message) -> str:
            if message.part != "live":
                message.rests = 0
                return "kept"
            until, times, marks = message.passed_on or (self.now + PATIENCE, 0, ())
            until = min(until, self.now + PATIENCE)
            marks += (mark,) if mark and mark not in marks else ()
            taken = any(taker not in marks for taker in takers)
            self.count(message, "released")
            self.totals["passed_on"] += 1
            message.counts["untried"] += 1
            if not taken and until <= self.now:
                self.note(message, "poisoned", 0)
                return self.bury(message, "dead", "unprocessable")
            rest = min(FIRST * 2**times, LONGEST)
            rest = rest if taken else min(rest, until - self.now)
            if message.story and message.story[-1][0] == "passed_on":
                message.story.pop()
            self.note(message, "passed_on", rest)
            if message.deadline and self.now + rest >= message.deadline:
                return self.bury(message, "expired", "expired")
            message.passed_on = (until, times + 1, marks)
            message.due = self.later(rest, message.number)
            self.put(message, waits=True)
            self.tell("passed_on")
            return "passed_on"

        return self.settle(held, act)

    def extend(self, held: Iterable[tuple[str, str]], lease: int, *, only_later: bool) -> list[bool]:
        """The leases start anew, each for all that its token holds, unless they would end sooner then."""
        still = []
        for message_id, token in held:
            message = self.messages.get(message_id)
            still.append(message is not None and message.holder == token)
            if still[-1] or call_of(token, message_id) in {*self.seats, *self.places}:
                least = self.leases.get(token, 0) if only_later else 0
                self.leases[token] = max(least, self.now + lease)
        return still

    def extend_claim(self, token: str, lease: int) -> bool:
        """The lease of a whole claim starts anew, where it still holds something."""
        if token in self.leases:
            self.leases[token] = self.now + lease
        return token in self.leases

    def ack_claim(self, token: str) -> int:
        """Done: all that a claim still holds; how many."""
        return len(self.ack([(message.id, token) for message in self.held_by(token)]))

    def divide_claim(self, token: str, to: str, keep: int) -> list[str]:
        """All but the first go to another token; the ids."""
        moved = self.held_by(token)[keep:]
        ids = [message.id for message in moved]
        if moved:
            self.leases[to], self.claims[to] = self.leases[token], ids
            if token in self.by_worker:
                self.by_worker.add(to)
        self.claims[token] = [name for name in self.claims.get(token, ()) if name not in ids]
        for message in moved:
            message.holder = to
        self.let_go(token)
        return ids

    def sweep(self, limit: int, seed: float) -> int:
        """Look at messages of lapsed leases, and say at how many: what their tokens still hold has failed.

        Where a worker made the claim, a message's first lapse is forgiven.
        """
        drawn, looked = draws(seed), 0
        lapsed = (token for token, until in self.leases.items() if until <= self.now)
        for token in sorted(lapsed, key=lambda token: (self.leases[token], token)):
            given = self.claims[token]
            now, self.claims[token] = given[: limit - looked], given[limit - looked :]
            looked += len(now)
            for message_id in now:
                message = self.messages.get(message_id)
                if message is not None and message.holder == token:
                    self.lapse(message, drawn)
                else:
                    self.end_call(token, message_id)
            self.let_go(token)
        return looked

    def lapse(self, message: Message, drawn: Iterator[float]) -> None:
        forgiven = message.holder in self.by_worker and not message.counts["lapsed"]
        before, message.holder = message.delay, None
        self.take_up(message)
        self.judge(message, "lapsed", drawn, charge=not forgiven, delay=0 if forgiven else None)
        message.delay = before if forgiven else message.delay  # from which the next may grow

    def lapsed_lines(self) -> int:
        """How many messages a sweep would look at."""
        return sum(len(self.claims[token]) for token, until in self.leases.items() if until <= self.now)

    def promote(self, limit: int) -> int:
        """The scheduled that are due become ready; how many."""
        return self.move_due(limit)

    def expire(self, limit: int) -> int:
        """What waits and has no time left expires; how many."""
        waiting = self.at("ready") + self.at("scheduled")
        over = [(m.deadline, m.id, m) for m in waiting if m.deadline and m.deadline <= self.now]
        for _, _, message in sorted(over, key=lambda row: row[:2])[:limit]:
            self.bury(message, "expired", "expired")
        return min(limit, len(over))

    # What they share

    def settle(
        self, held: Iterable[tuple[str, str]], act: Callable[[Message], str], *, acks: bool = False
    ) -> list[str]:
        """I2: only the current token settles a message. One that is not done takes what was asked for."""
        outcomes, done = [], set[str]()
        for message_id, token in held:
            message = self.messages.get(message_id)
            if message is not None and message.holder == token:
                message.holder = None
                if not acks:
                    self.take_up(message)
                outcomes.append(act(message))
                done.add(message_id)
                self.let_go(token)
            else:
                outcomes.append("gone" if message is None and message_id not in done else "lost")
                if message_id not in done:  # the call of one that was cancelled has ended
                    self.end_call(token, message_id)
                    self.let_go(token)
        return outcomes

    def judge(
        self, message: Message, event: str, drawn: Iterator[float], *, charge: bool, delay: int | None
    ) -> str:
        """What becomes of a message that failed. Exhausted beats expired; a dead letter stays one."""
        if message.part != "live" and event == "lapsed":
            message.rests = 0
            return "kept"
        self.count(message, event)
        message.counts["charged"] += charge
        if message.part == "live" and self.settings.policy.spent(message.counts["charged"]):
            self.note(message, event, 0)
            return self.bury(message, "dead", "exhausted")
        in_a_row = event == "nacked" and not charge and message.part == "live"
        asked = delay
        if delay is None:
            n = max(message.counts["charged"], 1)
            delay = self.settings.policy.delay_ms(n, next(drawn), message.delay)
        if in_a_row:
            delay = self.uncharged_delay(message, asked, delay, next(drawn))
        if message.part != "live":
            return self.keep(message, delay)
        self.note(message, event, delay)
        if message.deadline and self.now + delay >= message.deadline:
            return self.bury(message, "expired", "expired")
        message.delay, message.passed_on = delay, None
        message.uncharged = message.uncharged + 1 if in_a_row else 0
        if delay:  # without one it returns to its old place
            message.due = self.later(delay, message.number)
        self.put(message, waits=delay > 0)
        self.tell("redelivered")
        return "redelivered"

    def uncharged_delay(self, message: Message, asked: int | None, delay: int, r: float) -> int:
        """No budget ends these failures: each in a row waits longer, unless a second was asked for."""
        if asked is not None and asked >= 1_000:
            return asked
        spread = self.settings.policy.collision_avoidance
        grows = RedeliveryPolicy(initial_delay=1, multiplier=2, max_delay=600, collision_avoidance=spread)
        return max(grows.delay_ms(message.uncharged + 1, r), delay if asked is None else 0)

    def keep(self, message: Message, delay: int) -> str:
        """A dead letter that failed stays one, and rests; of such failures its story tells the newest."""
        message.delay = max(delay, REST)
        message.rests = self.now + message.delay
        self.tell_expiry(message)
        if message.story and message.story[-1][0] == "kept":
            message.story.pop()
        self.note(message, "kept", message.delay)
        self.tell("kept")
        return "kept"

    def later(self, delay: int, number: int) -> int:
        """When a delay is over; never the millisecond of birth (see lua/order.lua)."""
        due = self.now + delay
        return due + 1 if due == number // 4096 else due

    def bury(self, message: Message, part: str, reason: str) -> str:
        """To the dead letters or the expired, or dropped, as the settings say; where it went."""
        message.passed_on, message.uncharged = None, 0
        fate = self.settings.expired if part == "expired" else self.settings.dead
        fate = "dead" if fate == "keep" else fate
        if fate == "dead" and message.transient and self.settings.transient == "discard":
            fate = "discard"
        self.totals[reason] += 1
        self.tell(part)
        if fate == "discard":
            self.discard(message)
            return "discarded"
        message.part, message.reason, message.due, message.rests = fate, reason, self.now, 0
        self.put(message)
        return fate

    def discard(self, message: Message) -> None:
        self.gone(message)
        self.totals["discarded"] += 1
        self.tell("discarded")

    def tell(self, event: str) -> None:
        """An entry of the outcome history."""
        if self.settings.outcomes:
            self.outcomes[event] += 1

    def tell_expiry(self, message: Message) -> None:
        """What the state of an expired message says, its story says once it fails or is no more."""
        told = [line[:2] for line in message.story]
        if message.reason == "expired" and ("expired", message.due) not in told:
            message.story.append(("expired", message.due, message.attempts, 0))

    def note(self, message: Message, event: str, delay: int) -> None:
        message.story.append((event, self.now, message.attempts, delay))

    def count(self, message: Message, event: str) -> None:
        message.counts[event] += 1
        self.totals[event] += 1

    def let_go(self, token: str) -> None:
        """A lease goes with the last message of its claim."""
        if not self.held_by(token) and not self.calls_of(token):
            for kept in (self.leases, self.claims):
                kept.pop(token, None)
            self.by_worker.discard(token)

    def each_chosen(
        self,
        place: str,
        ids: Sequence[str],
        visit: Callable[[Message], object],
        *,
        limit: int,
        before: float = float("inf"),
        let_in: bool = True,
    ) -> list[str]:
        """Visit these, or else the first; the ids of those that were there when it was their turn.

        Where one leaves its lane, the next is let in. False from `visit`: it stays as it is.

        Args:
            let_in: also those that were scheduled, and became ready since, if there is a rule for keys.
        """
        done, places = dict[str, bool](), {place}
        if let_in and place == "scheduled" and self.settings.per_key:
            places.add("ready")
        for message_id in ids or [m.id for m in self.at(place) if m.due <= before][:limit]:
            message = self.messages.get(message_id)
            if message is not None and message.place in places and message_id not in done:
                done[message_id] = visit(message) is not False
        return [message_id for message_id, was_changed in done.items() if was_changed]
