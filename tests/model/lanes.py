"""Messages with keys: whatever is done to them, in any order, what must hold of lanes and seats.

The rules are those of lua/README.md ("Lanes"), checked on the raw keys of two queues after every step. A step
may be cut off at any of its Redis calls; then the rules hold again after one round of `tend`.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.cancelling import calls as cancelling_calls
from rq_dlq.core.changing import calls as choosing_calls
from rq_dlq.core.claiming.calls import Suspects
from rq_dlq.core.jobs import calls as job_calls
from rq_dlq.core.keyed.keyed import CANCELLED
from rq_dlq.core.managing import calls as managing_calls
from rq_dlq.core.redrive import calls as redrive_calls
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.sessions import calls as session_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.errors import BrokerRefused
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.testing.clock import CLOCK
from rq_dlq.values.key import Of, lane_of
from tests.audit import lanes_in
from tests.conftest import Clock
from tests.model.calls import ASKED
from tests.model.driver import CAUSE, CODEC, LONG, Driver
from tests.model.stops import stopping

IDS = [f"m{n}" for n in range(14)]
KEY_OF = {name: ("a", "b", "a", None, "c")[n % 5] for n, name in enumerate(IDS)}
NEEDS = {name: "pay" if n % 4 < 2 else None for n, name in enumerate(IDS)}
"""The dependency of each."""
PAY = lane_of("pay", "dependency")
HEAD = re.compile(r" head=(\d+)/(\d+)")  # lua/record.lua, word
PASS = "\x01"  # noqa: S105 - lua/lanes.lua, PASS
BREAKER = "distinct=2 within=5000ms share=0.5 probe=500ms longest_probe=2000ms"
MOST_PASSES, MOST_PROBES = 32, 3
BLOCKED, BAND = 1 << 43, 1 << 42
MODES = ("order", "order hold", "limit 2", "fair 2")
INTERVAL = 250  # milliseconds, of the rate of keys; `tend` repairs once a second
RATED = ("rate 4/s", "order hold rate 4/s", "limit 2 rate 4/s", "fair 2 rate 4/s")
PATIENCE = 40  # claims, two seconds apart, after which nobody waits
AT_ONCE = 60  # Redis calls at which a script is cut off at the latest


def payload(name: str, priority: int) -> bytes:
    """What a sender packs; one id comes with one key."""
    return CODEC.packer(
        priority, {"h": "x"} if priority > 4 else {}, key=KEY_OF[name], dependency=NEEDS[name]
    )(LONG.get(name, b"x"))


@dataclass
class Seen:
    """Where the messages of a queue with keys are.

    Attributes:
        blocked: ids by their rows, in the order of their lanes.
        seats: lanes by ids.
        calls: lanes by the seats of calls whose messages were cancelled.
        waits: those that wait for their redelivery, or were sent with a delay.
        passes: ids of those that were let through the gate of their dependency.
        out: those of them that do not hang.
        lanes: what is special about lanes.
        by_rate: ids of those whose seats say that they were let in by the rate, and are not handed out.
        slots: lanes of which it lets the next one in later, or at the next claim.
        due: those of `waits` whose time has come, and no call has moved them yet.
        moving: those that such a call has made ready before it was cut off, and not removed there.
        given_back: how often each was handed out and does not count as that.
        now: the clock of the scripts.
    """

    place: dict[str, str] = field(default_factory=dict[str, str])
    lane: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    row: dict[str, bytes] = field(default_factory=dict[str, bytes])
    seats: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[str, int] = field(default_factory=dict[str, int])
    leases: set[str] = field(default_factory=set[str])
    reason: dict[str, str] = field(default_factory=dict[str, str])
    passes: set[str] = field(default_factory=set[str])
    out: set[str] = field(default_factory=set[str])
    lanes: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    by_rate: set[str] = field(default_factory=set[str])
    slots: set[int] = field(default_factory=set[int])
    due: set[str] = field(default_factory=set[str])
    moving: set[str] = field(default_factory=set[str])
    given_back: Counter[str] = field(default_factory=Counter[str])
    now: int = 0

    def closed(self, lane: int | None, *, or_due: bool = False) -> bool:
        """Whether it is open or paused; `or_due`: also where the pause is over, and no claim saw that yet."""
        found = self.lanes.get(-1 if lane is None else lane, {})
        paused = "paused" in found and (or_due or found.get("ends", self.now + 1) > self.now)
        return "open" in found or paused

    def limit(self, lane: int, mode: str) -> int:
        """How many of it may hold a seat: as the rule says, or by its own limit."""
        return int(self.lanes.get(lane, {}).get("limit", limit_of(mode)))

    def at(self, *places: str) -> list[str]:
        """The ids at these places."""
        return [name for name, place in self.place.items() if place in places]

    def held(self, *, settled: bool) -> Counter[int]:
        """How many seats of each lane are taken; of a cancel that was cut off, one."""
        of = {call: call.split(" ", 1)[1] for call in self.calls}
        calls = [lane for call, lane in self.calls.items() if settled or of[call] not in self.seats]
        return Counter([*self.seats.values(), *calls])


def look(raw: Any, keys: QueueKeys) -> Seen:
    """Read the queue; a row that its message's state contradicts does not count."""
    pipeline = raw.pipeline(transaction=False)
    pipeline.hgetall(keys["messages"]).hgetall(keys["states"])
    for index in ("ready", "scheduled", "seats"):
        pipeline.zrange(keys[index], 0, -1, withscores=True)
    pipeline.zrange(keys["leases"], 0, -1).hgetall(keys["special"]).zrange(keys["slots"], 0, -1)
    records, states, ready, scheduled, seats, leases, lanes, slots = pipeline.execute()
    held = {name.decode(): int(lane) for name, lane in seats}
    seen = Seen(seats={name: lane for name, lane in held.items() if name[0] not in {PASS, CANCELLED}})
    seen.calls = {name: lane for name, lane in held.items() if name[0] == CANCELLED}
    seen.leases = {token.decode() for token in leases}
    seen.passes = {name[1:] for name in held if name[0] == PASS}
    seen.lanes = {int(lane): json.loads(text) for lane, text in lanes.items()}
    seen.by_rate = {name.decode() for name, lane in seats if lane % 1 and name[:1] != PASS.encode()}
    seen.out = {name.decode()[1:] for name, lane in seats if not lane % 1 and name[:1] == PASS.encode()}
    seen.slots = {int(lane) for lane in slots}
    seen.now = int(raw.get(CLOCK))
    rows = {row: "ready" for row, _ in ready}  # what was cut off may have left others of a message
    is_due = {row for row, score in scheduled if score <= seen.now}
    for row, score in scheduled:
        place = "waits" if score < BLOCKED else "parked" if score // 1 == BLOCKED + PAY else "blocked"
        rows.setdefault(row, place)
    for cell, record in sorted(records.items()):  # so that a draw does the same again
        name = cell.decode()
        lane, needs = lanes_in(record)
        if lane is None and needs is None:
            continue
        state = states.get(cell, b"live - ").decode()
        part = state.split(" ")[0].split("/")[0]
        counts = [int(count) for count in state.split(" ")[4:8]] or [0] * 4
        charged, nacked, lapsed, released = counts
        seen.given_back[name] = released + nacked + lapsed - charged  # a forgiven lapse is not charged
        flags = int(long[2]) if (long := HEAD.search(state)) else record[7]
        row = bytes([9 - flags % 16]) + record[:7] + cell  # by priority, birth and id
        row, place = (row, rows[row]) if row in rows else (b"", "nowhere")
        if " +" in state[:20]:
            place = "leased" if part == "live" else "claimed letter"
        elif part != "live":
            place = part
        seen.place[name], seen.row[name] = place, row
        seen.due |= {name} if row in is_due and place == "waits" else set()
        seen.moving |= {name} if row in is_due and place == "ready" else set()
        seen.lane[name] = lane
        seen.reason[name] = state.split(" ")[0].partition("/")[2]
    return seen


def limit_of(mode: str) -> int:
    """How many of a lane may hold a seat."""
    return 2 if " 2" in mode else 1


def takes_turns(mode: str) -> bool:
    """Whether a seat is given back when its message is handed out."""
    return mode.startswith(("fair", "rate"))


def check(seen: Seen, before: Seen, mode: str, *, settled: bool, whole: bool, overtaking: bool) -> None:
    """The rules of lanes.

    Args:
        before: the step before.
        settled: nothing was cut off, or `tend` has repaired that.
        whole: nothing was ever cut off; else a row may be ready that a claim blocks when it meets it.
        overtaking: no script was cut off in this step; else what became ready is not looked at.

    Raises:
        AssertionError: one does not hold.
    """
    in_turn = takes_turns(mode)
    called = {call.split(" ", 1)[1] for call in seen.calls}  # of a cancel that was cut off after that seat
    for name in (seen.at("ready") if whole else []) + ([] if in_turn else seen.at("leased")):
        has_seat = seen.lane[name] is None or name in seen.seats or name in called
        assert has_seat, f"{name} is {seen.place[name]} without a seat"
    held = seen.held(settled=settled)
    if not in_turn:
        was = before.held(settled=settled)  # those of a limit that was taken back stay
        over = [lane for lane, count in held.items() if count > max(seen.limit(lane, mode), was[lane])]
        assert not over, f"more than may hold a seat of {over}: {seen.seats}"
        begun = {seen.lane[name] for name in {*seen.at("leased")} - {*before.at("leased")}}
        in_work = Counter(seen.lane[name] for name in seen.at("leased"))
        over = [lane for lane in begun if lane is not None and in_work[lane] > seen.limit(lane, mode)]
        assert not over, f"more than may hold a seat of {over} are in work: {seen.at('leased')}"
    if overtaking:
        # In turn, a claim that was cut off may have taken the seat of a ready message, and no more.
        let_in_before = {*before.seats, *(before.at("ready") if in_turn else ())}
        for name in seen.seats.keys() - let_in_before:
            if (lane := seen.lane.get(name)) is None or seen.place[name] != "ready":
                continue
            # Of two that are due, the first to be due goes first.
            was_due = before.place.get(name) == "waits" or name in before.moving
            places = ["blocked"] if was_due else ["blocked", "waits"]
            wait = {*seen.at("blocked"), *seen.due}
            waited = [it for it in before.at(*places) if it in wait and seen.lane[it] == lane]
            passed = [it for it in waited if seen.row[it] == before.row[it] and seen.row[it] < seen.row[name]]
            assert not passed, f"{name} has overtaken {passed}"
        for name in before.at("leased") if mode.startswith("order") else ():
            waits = seen.place.get(name) == "waits"
            dead = seen.place.get(name) == "dead" and seen.reason[name] != "expired"
            holds = dead and mode.startswith("order hold")
            if name in before.seats and (waits or holds):
                assert name in seen.seats, f"{name} is {seen.place[name]}, and gave its seat back"
        if whole:
            check_gate(seen, before)
            ready = {name for name in seen.at("ready") if seen.lane[name] is not None and "rate" in mode}
            assert ready <= seen.by_rate, f"{ready - seen.by_rate} are ready, and not by the rate"
    if settled:
        check_settled(seen, mode)


def check_gate(seen: Seen, before: Seen) -> None:
    """Nobody is handed out who needs what is down, but for those that were let through.

    Raises:
        AssertionError: somebody is.
    """
    if not (before.closed(PAY) and seen.closed(PAY)):
        return
    for name in seen.at("leased"):
        if NEEDS[name] and before.place.get(name) in {"ready", "parked", "blocked", "waits"}:
            assert name in seen.passes, f"{name} was handed out of a closed lane without a pass"


def check_settled(seen: Seen, mode: str) -> None:
    """The rules that a script which is cut off may leave broken.

    Raises:
        AssertionError: one does not hold.
    """
    in_turn, held = takes_turns(mode), seen.held(settled=True)
    paced = Counter(seen.seats[name] for name in seen.by_rate if name in seen.seats)
    assert all(count == 1 for count in paced.values()), f"several are ready by the rate: {seen.by_rate}"
    assert not seen.at("nowhere"), f"{seen.at('nowhere')} are in no place"
    astray = seen.passes - {*seen.at("ready", "leased")}
    assert not astray, f"passes of what is neither ready nor in work: {astray}"
    most = MOST_PROBES if "open" in seen.lanes.get(PAY, {}) else MOST_PASSES
    assert len(seen.out) <= most, f"{len(seen.out)} passes"
    assert not seen.at("parked") or PAY in seen.lanes, f"{seen.at('parked')} wait for nothing"
    assert seen.seats.keys() <= seen.place.keys(), (
        f"seats of nothing: {seen.seats.keys() - seen.place.keys()}"
    )
    for call in seen.calls:
        token = call.removeprefix(CANCELLED).split(" ")[0]
        assert token in seen.leases, f"the call {call} holds a seat, and has no lease"
    for name, lane in seen.seats.items():
        place = seen.place[name]
        assert lane == seen.lane[name]
        keeps = {"ready"} if in_turn else {"ready", "leased"}
        keeps |= {"waits", "parked"} if mode.startswith("order") else set()
        keeps |= (
            {"dead", "claimed letter"}
            if mode.startswith("order hold") and seen.reason[name] != "expired"
            else set()
        )
        assert place in keeps, f"{name} is {place} and holds a seat"
    for name in seen.at("blocked"):
        own = seen.lane[name]
        if own is None or not (held[own] >= seen.limit(own, mode) or paced[own] > 0 or own in seen.slots):
            assert seen.closed(own, or_due=True), f"{name} waits beside a free seat"


class Lanes:
    """Two queues under a rule for keys, and all that can be done to their messages.

    Attributes:
        attempts: how many messages were handed out.
        cuts: how many scripts were cut off.
    """

    def __init__(
        self,
        raw: Any,
        mode: str,
        draw: int,
        *,
        cut_off: bool = False,
        turned_on: bool = False,
        outages: bool = False,
    ) -> None:
        raw.flushall()
        self.outages = outages
        self.whole = not (cut_off or turned_on)
        self.raw, self.mode, self.cut_off = raw, mode, cut_off
        self.random = random.Random(draw)
        self.clock = Clock(raw)
        policy = RedeliveryPolicy(initial_delay=1, max_delay=2, max_redeliveries=2)
        self.queue, self.other = Driver(raw, policy), Driver(raw, policy, keys=QueueKeys("rq", "to"))
        if turned_on:  # after a rule that allows more, or has no rate, or after none
            before = mode.rpartition("rate")[0].strip() or self.random.choice(["", "limit 3"])
            if before and before != mode:
                assert self.queue.run(self.queue.configure_call({"per_key": before}))
            items = [cell for name in IDS for cell in (name, payload(name, 4))]
            self.queue.run(sending_calls.send(self.queue.sender(), delay=0, ttl=0, items=items))
            self.tend(self.queue)  # so that no claim does at once after the change
        for driver in (self.queue, self.other):
            settings = {"redelivery": driver.wire.decode(), "per_key": mode}
            settings |= {"breaker": BREAKER} if outages else {}
            assert driver.run(driver.configure_call(settings))
        self.tokens: list[str] = []
        self.held: dict[str, str] = {}  # id: the token that was given it last
        self.cancelled: list[tuple[str, str]] = []  # what was held when it was cancelled
        self.handed_out: dict[int, list[tuple[int, str]]] = defaultdict(list)
        """Of each lane: when, and 1; or -1 where it does not count any more."""
        self.attempts = self.cuts = self.redriven = 0
        self.jobs = 0
        self.seen = {driver.keys: look(raw, driver.keys) for driver in (self.queue, self.other)}

    def step(self) -> str:
        """Do something, and check what must hold; what was done."""
        # A claim of letters may hand out a live message, by a row that a cut-off purge has left in `dead`.
        verbs = [
            name
            for name in VERBS
            if not (self.cut_off and name == "letters")
            and (self.outages or name not in OF_OUTAGES)
            and (self.mode.startswith("limit") or name not in OF_LIMITS)
        ]
        verb = self.random.choices(verbs, [VERBS[name][0] for name in verbs])[0]
        for call in VERBS[verb][1](self):
            self.run(call, verb)
        return verb

    def run(self, call: Call[Any], verb: str) -> None:
        """Run a call, perhaps cut off, perhaps twice; then check."""
        cut = False
        if self.cut_off and self.random.random() < 0.5:
            cut = self.cut(call, self.random.randint(1, AT_ONCE))
        reply, taken = None, list[str]()
        if not cut or self.random.random() < 0.5:
            reply = self.queue.run(call, repeated=cut)
            if self.random.random() < 0.1:
                again = self.queue.run(call, repeated=True)
                reply = again if verb == "claim" else reply  # it may be the first that finds something
        if verb == "claim" and reply is not None:
            self.attempts += len(reply.rows)
            self.held.update((row.id, self.tokens[-1]) for row in reply.rows)
            taken = [row.id for row in reply.rows]
        before = self.seen[self.queue.keys]
        self.check(verb, settled=self.whole and not cut, overtaking=not cut)
        if "rate" in self.mode and not self.cut_off:
            self.pace(before, taken)
        if cut:
            for driver in (self.queue, self.other):
                self.tend(driver)
            self.check(f"{verb}, cut off and tended", settled=True, overtaking=False)

    def pace(self, before: Seen, taken: Sequence[str]) -> None:
        """In no window more of a lane come out than its rate and one.

        What is given back does not count, if no other of the lane came out since; given back later, it does.

        Raises:
            AssertionError: more are.
        """
        seen = self.seen[self.queue.keys]
        for name in seen.place.keys() & before.place.keys():
            if (lane := seen.lane[name]) is not None and before.place[name] == "leased":
                came = self.handed_out[lane]
                if seen.given_back[name] > before.given_back[name] and came and came[-1][1] == name:
                    came.pop()
        for name in taken:
            if (lane := seen.lane.get(name)) is not None:
                self.handed_out[lane].append((self.clock.now, name))
                for count, (at, _) in enumerate(reversed(self.handed_out[lane]), 1):
                    most = (self.clock.now - at) / INTERVAL + 1
                    assert count <= most, f"{count} of {name}'s key since {self.clock.now - at} ms"

    def cut(self, call: Call[Any], n: int) -> bool:
        """Cut a call off at its n-th Redis call; whether there is one."""
        try:
            Driver(self.raw, self.queue.policy, stopping(self.raw, n)).run(call)  # type: ignore[arg-type]
        except BrokerRefused as refused:
            assert "stopped" in str(refused), refused  # noqa: PT017 - others are failures
        stopped = bool(self.raw.delete("stopped"))
        self.raw.delete("stop at")
        self.cuts += stopped
        return stopped

    def tend(self, driver: Driver) -> None:
        """A round of it: claims that may take nothing."""
        self.raw.hset(driver.keys["settings"], "paused", 1)
        for _ in range(2):
            self.clock.advance(1)
            driver.run(driver.claim_call("tend"))
        self.raw.hdel(driver.keys["settings"], "paused")

    def check(self, what: str, *, settled: bool, overtaking: bool) -> None:
        for keys, before in self.seen.items():
            seen = look(self.raw, keys)
            try:
                check(seen, before, self.mode, settled=settled, whole=self.whole, overtaking=overtaking)
                for name in before.at("leased") if what == "cancel" and overtaking else ():
                    runs = name in seen.place or any(call.endswith(f" {name}") for call in seen.calls)
                    assert runs or name not in before.seats, f"the call of {name} runs on without its seat"
            except AssertionError as error:
                error.add_note(f"after {what} in {keys.family} under {self.mode!r}: {before} became {seen}")
                raise
            self.seen[keys] = seen

    # What is done

    def some(self, *places: str, most: int = 3) -> list[str]:
        """Ids of messages that are there."""
        found = self.seen[self.queue.keys].at(*places)
        return self.random.sample(found, min(len(found), self.random.randint(1, most)))

    def pairs(self) -> list[tuple[str, str]]:
        """What is held with its tokens, and at times with stale ones."""
        names = self.some("leased") or self.random.sample(IDS, 1)
        stale = self.random.random() < 0.1 and self.tokens
        ended = self.cancelled.pop() if self.cancelled and self.random.random() < 0.3 else None
        held = [
            (name, self.random.choice(self.tokens) if stale else self.held.get(name, "nobody"))
            for name in names
            if ended is None or name != ended[0]
        ]
        return [*held, *([ended] if ended else [])]

    def token(self) -> str:
        self.tokens.append(f"t{len(self.tokens)}")
        return self.tokens[-1]


Acts = Callable[[Lanes], Iterator[Call[Any]]]


def _send(me: Lanes) -> Iterator[Call[Any]]:
    priority = me.random.choice([4, 4, 4, 7])
    names = me.random.sample(IDS, me.random.randint(1, 6))
    items = [cell for name in names for cell in (name, payload(name, priority))]
    delay, ttl = me.random.choice([0, 0, 0, 1_500]), me.random.choice([0, 0, 0, 4_000])
    yield sending_calls.send(me.queue.sender(), delay=delay, ttl=ttl, items=items)


def _claim(me: Lanes) -> Iterator[Call[Any]]:
    kinds: list[Suspects] = ["all", "all", "alone", "none"]
    suspects = me.random.choice(kinds)
    yield me.queue.claim_call(
        me.token(), me.random.choice([1, 2, 5]), lease=2_000, suspects=suspects, seed=me.random.random()
    )


def _nack(me: Lanes) -> Iterator[Call[Any]]:
    yield settling_calls.nack(
        me.queue.keys, me.pairs(), delay=me.random.choice([None, None, 0, 500]), charge=True, cause=CAUSE,
        consumer='"c"', seed=0.25, default_policy=me.queue.wire, counts=me.outages,
        pauses=me.outages and me.random.random() < 0.1,
    )  # fmt: skip


def _pause(me: Lanes) -> Iterator[Call[Any]]:
    names: list[tuple[Of, str]] = [("key", "a"), ("key", "b"), ("dependency", "pay")]
    of, name = me.random.choice(names)
    until = managing_calls.Until(after=me.random.choice([None, 1_000]))
    paused = me.random.random() < 0.4
    until = until if paused else managing_calls.NO_END
    close = me.random.random() < 0.5
    yield managing_calls.pause_lane(me.queue.keys, of, name, paused=paused, until=until, close=close)


def _probe(me: Lanes) -> Iterator[Call[Any]]:
    if not me.seen[me.queue.keys].out:  # the next one of an open breaker comes beside none
        yield managing_calls.probe_lane(me.queue.sender(), "pay", seed=me.random.random())


def _limit(me: Lanes) -> Iterator[Call[Any]]:
    name, limit = me.random.choice("ab"), me.random.choice([None, 1, 3])
    yield managing_calls.limit_lane(me.queue.keys, name, limit)


def _sweep(me: Lanes) -> Iterator[Call[Any]]:
    yield upkeep_calls.sweep(me.queue.keys, limit=20, seed=0.25, default_policy=me.queue.wire)


def _redrive(me: Lanes) -> Iterator[Call[Any]]:
    for name in me.some("dead", "expired", most=2):
        part = me.seen[me.queue.keys].place[name]
        me.redriven += 1
        yield choosing_calls.redrive(me.queue.sender(), place=part, by='"op"', ids=[name], limit=1)  # type: ignore[arg-type]


def _undo(me: Lanes) -> Iterator[Call[Any]]:
    names = me.some("dead", most=2)
    if not names:
        return
    me.jobs += 1
    job, listed = f"j{me.jobs}", me.queue.keys.redrive(f"j{me.jobs}")
    me.raw.rpush(listed, *names)
    me.raw.expire(listed, 600)
    yield redrive_calls.start_redrive(me.queue.keys, job, ASKED, listed=len(names), gone=0, grace=0)
    yield redrive_calls.step_redrive(me.queue.keys, job, limit=10, grace=10_000)
    me.redriven += len(names)
    yield redrive_calls.undo_redrive(me.queue.keys, job, by='"op"', user="", cause=CAUSE.cells(), limit=10)


def _of_place(make: Callable[..., Call[Any]], *places: str) -> Acts:
    """An operator's verb, of one message."""

    def act(me: Lanes) -> Iterator[Call[Any]]:
        for name in me.some(*places, most=1):
            place = me.seen[me.queue.keys].place[name]
            place = "scheduled" if place in {"blocked", "waits", "parked"} else place
            yield make(me, place, name)

    return act


def _cancel(me: Lanes) -> Iterator[Call[Any]]:
    for name in me.some(*WAITS, "leased", most=1):
        if me.seen[me.queue.keys].place[name] == "leased":
            me.cancelled.append((name, me.held.get(name, "nobody")))
        yield cancelling_calls.cancel(me.queue.sender(), id=name)


def _move(source: str) -> Callable[..., Call[Any]]:
    def make(me: Lanes, place: Any, name: str) -> Call[Any]:
        here, there = (me.queue, me.other) if source == "q" else (me.other, me.queue)
        return choosing_calls.transfer(
            here.sender(), there.keys, place=place, ids=[name], keep=False, by='"op"', cause=CAUSE
        )

    return make


def _move_back(me: Lanes) -> Iterator[Call[Any]]:
    seen = me.seen[me.other.keys]
    for name in seen.at("ready", "blocked", "waits", "parked", "dead", "expired")[:1]:
        place = seen.place[name]
        yield _move("to")(me, "scheduled" if place in {"blocked", "waits", "parked"} else place, name)


def _commit(me: Lanes) -> Iterator[Call[Any]]:
    names = me.random.sample(IDS, 2)
    acks = [(name, me.held[name]) for name in me.some("leased") if name in me.held and name not in names]
    items = [cell for name in names for cell in (name, payload(name, 4))]
    shares = [session_calls.Share(me.queue.keys, acks, [session_calls.Outgoing(0, 0, items)])]
    yield session_calls.commit(me.queue.sender(), shares)


def _ack_claim(me: Lanes) -> Iterator[Call[Any]]:
    calls = me.seen[me.queue.keys].calls  # no claim of Spark, which alone is acked so, has a cancelled one
    if me.tokens and not any(call.startswith(f"{CANCELLED}{me.tokens[-1]} ") for call in calls):
        yield batch_calls.ack_claim(me.queue.keys, me.tokens[-1])


def _ack_all(me: Lanes) -> Iterator[Call[Any]]:
    yield session_calls.ack_all(me.queue.keys, list(dict(me.pairs()).items()))


def _staged(me: Lanes) -> Iterator[Call[Any]]:
    """What a job has committed."""
    me.jobs += 1
    job, attempt = f"s{me.jobs}", "a.0.0"
    names = me.random.sample(IDS, 2)
    key = me.queue.keys.stage(job, attempt)
    me.raw.rpush(key, *[cell for name in names for cell in (name, payload(name, 4))])
    me.raw.expire(key, 60)
    call = f"c{me.jobs}"
    yield job_calls.commit_job(
        me.queue.keys, job, {attempt: len(names)}, batch=0, call=call, grace=0, remembered=60_000
    )
    yield job_calls.move_staged(me.queue.keys, job, attempt, limit=10, early=True)


def _letters(me: Lanes) -> Iterator[Call[Any]]:
    """Dead letters are claimed; one is acked, the others fail."""
    token = me.token()
    yield me.queue.claim_call(token, 3, part="dead", lease=2_000)
    held = [(name, token) for name in me.some("claimed letter")]
    yield settling_calls.ack(me.queue.keys, held[:1] or [("none", token)])
    yield settling_calls.nack(
        me.queue.keys, held[1:] or [("none", token)], delay=None, charge=True, cause=CAUSE, consumer='"c"',
        seed=0.25, default_policy=me.queue.wire,
    )  # fmt: skip


def _time(me: Lanes) -> Iterator[Call[Any]]:
    steps = [0.2, 0.7, 1.2, 2.5]
    if "rate" in me.mode:  # at times a minute in which nobody comes; or the clock steps back
        steps = [*[*steps, 0.05, 0.1] * 3, 60, *([] if me.cut_off else [-5])]
    step = me.random.choice(steps)
    me.clock.set(me.clock.now + round(1_000 * step))
    if step < 0:
        me.handed_out.clear()  # no window reaches over it: that is the burst that it costs
    yield upkeep_calls.promote(me.queue.keys, limit=20)


WAITS = ("ready", "blocked", "waits", "parked")
OF_OUTAGES = {"pause a lane", "probe"}
OF_LIMITS = {"limit a lane"}
VERBS: dict[str, tuple[int, Acts]] = {
    "send": (10, _send),
    "claim": (14, _claim),
    "ack": (8, lambda me: iter([settling_calls.ack(me.queue.keys, me.pairs())])),
    "nack": (6, _nack),
    "poison": (2, lambda me: iter([me.queue.poison_call(me.pairs())])),
    "release": (2, lambda me: iter([settling_calls.release(me.queue.keys, me.pairs(), begun=True)])),
    "pass on": (1, lambda me: iter([me.queue.pass_on_call(me.pairs())])),
    "ack a claim": (1, _ack_claim),
    "ack all": (1, _ack_all),
    "commit": (1, _commit),
    "staged": (1, _staged),
    "letters": (2, _letters),
    "sweep": (3, _sweep),
    "expire": (2, lambda me: iter([upkeep_calls.expire(me.queue.keys, limit=20)])),
    "time": (6, _time),
    "redrive": (3, _redrive),
    "undo": (1, _undo),
    "purge": (1, _of_place(lambda me, place, name: choosing_calls.purge(
        me.queue.sender(), place=place, ids=[name], limit=1), *WAITS, "dead", "expired")),
    "cancel": (4, _cancel),
    "dead-letter": (1, _of_place(lambda me, place, name: choosing_calls.dead_letter(
        me.queue.sender(), place=place, ids=[name], by='"op"', cause=CAUSE), *WAITS, "expired")),
    "expire now": (1, _of_place(lambda me, place, name: choosing_calls.expire_now(
        me.queue.sender(), place=place, ids=[name]), *WAITS)),
    "deliver now": (2, _of_place(lambda me, _, name: choosing_calls.deliver_now(
        me.queue.sender(), ids=[name]), "blocked", "waits")),
    "prioritize": (2, _of_place(lambda me, place, name: choosing_calls.prioritize(
        me.queue.sender(), place=place, ids=[name], priority=me.random.choice([2, 4, 8])), *WAITS)),
    "probe": (1, _probe),
    "pause a lane": (3, _pause),
    "limit a lane": (3, _limit),
    "move": (2, _of_place(_move("q"), *WAITS, "dead", "expired")),
    "move back": (2, _move_back),
}  # fmt: skip


def drive(raw: Any, mode: str, draw: int, steps: int, **how: bool) -> Lanes:
    """So many steps; what was done.

    Args:
        how: `cut_off`: scripts are; `turned_on`: the rule is, over a full queue; `outages`: of a dependency.

    Raises:
        AssertionError: a rule does not hold.
    """
    lanes = Lanes(raw, mode, draw, **how)
    done: list[str] = []
    for n in range(steps):
        try:
            done.append(lanes.step())
        except BaseException as error:
            error.add_note(f"step {n} of draw {draw}; before it: {', '.join(done[-12:])}")
            raise
    if lanes.outages:
        recover(lanes)
    elif "rate" in mode:
        drain(lanes)
    return lanes


def drain(lanes: Lanes) -> None:
    """Claim and ack until nobody is left.

    Raises:
        AssertionError: somebody waits for ever, or a key is handed out too fast.
    """
    for _ in range(PATIENCE):
        lanes.clock.advance(2)
        lanes.run(lanes.queue.claim_call(lanes.token(), 5, lease=2_000), "claim")
        if pairs := [(name, lanes.held[name]) for name in lanes.seen[lanes.queue.keys].at("leased")]:
            lanes.run(settling_calls.ack(lanes.queue.keys, pairs), "ack")
    seen = lanes.seen[lanes.queue.keys]
    held = {seen.lane[name] for name in seen.seats if seen.place[name] in {"dead", "claimed letter"}}
    wait = [name for name in seen.at("blocked", "ready") if seen.lane[name] not in held]
    assert not wait, f"{wait} wait for ever: {seen}"


def recover(lanes: Lanes) -> None:
    """All is well again, and nobody pauses anything: then nobody waits for the dependency for long.

    Raises:
        AssertionError: somebody does, or something is still known of a lane.
    """
    queue = lanes.queue
    pays: list[tuple[Of, str]] = [("key", "a"), ("key", "b"), ("dependency", "pay")]
    for of, name in pays:
        queue.run(managing_calls.pause_lane(queue.keys, of, name, paused=False, close=True))
        queue.run(managing_calls.limit_lane(queue.keys, name, None))
    for _ in range(PATIENCE):
        lanes.clock.advance(2)
        token = lanes.token()
        claimed = queue.run(queue.claim_call(token, 5))
        held = [(row.id, token) for row in claimed.rows]
        if held:
            queue.run(settling_calls.ack(queue.keys, held))
    seen = look(lanes.raw, queue.keys)
    assert not seen.at("parked", "ready"), f"{seen.at('parked', 'ready')} wait for ever: {seen}"
    assert not [lane for lane in seen.lanes.values() if "trusts" not in lane], seen.lanes
    assert not seen.passes, f"passes of nobody: {seen.passes}"


def turns(raw: Any, draw: int, hand_outs: int) -> tuple[float, int]:
    """Five loud keys take turns, and a quiet one comes.

    Returns:
        How far the shares of the loud ones differ, a part of the largest; and how many messages are handed
        out before the quiet one's, beyond what the rule allows.
    """
    raw.flushall()
    clock, drawn = Clock(raw), random.Random(draw)
    queue = Driver(raw)
    queue.run(queue.configure_call({"redelivery": queue.wire.decode(), "per_key": "fair 4"}))
    pack = {key: CODEC.packer(4, {}, key=key)(b"x") for key in ("a", "b", "c", "d", "e", "quiet")}
    loud = [key for key in pack if key != "quiet"]
    for key in loud:  # one after the other: who came first has no advantage
        items = [cell for n in range(hand_outs) for cell in (f"{key}{n}", pack[key])]
        for first in range(0, len(items), 1_000):
            call = sending_calls.send(queue.sender(), delay=0, ttl=0, items=items[first : first + 1_000])
            queue.run(call)
        clock.advance(0.001)
    shares: Counter[str] = Counter()
    taken = waited = 0
    came: int | None = None
    while taken < hand_outs:
        if came is None and taken > hand_outs // 2:
            queue.run(sending_calls.send(queue.sender(), delay=0, ttl=0, items=["quiet", pack["quiet"]]))
            came = taken
        token, count = f"t{taken}", drawn.choice([1, 2, 5, 30])
        rows = queue.run(queue.claim_call(token, count, seed=drawn.random())).rows
        assert len(rows) == count, f"a claim of {count} got {len(rows)}"
        names = [row.id for row in rows]
        shares.update(name[0] for name in names if name != "quiet")
        if "quiet" in names:
            waited = taken + names.index("quiet") - (came or 0) - count
        taken += count
        queue.run(settling_calls.ack(queue.keys, [(name, token) for name in names]))
        clock.advance(drawn.choice([0, 0.001]))
    assert came is not None
    most = max(shares.values())
    return (most - min(shares.values())) / most, waited - 4 * len(loud)
