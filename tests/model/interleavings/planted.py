"""Faults, planted in the Lua one at a time, which the search is to find."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rq_dlq._scripts import Joined
from tests.conftest import MOVED_CLOCK

LUA = Path(__file__).parents[3] / "lua"


class Fault(NamedTuple):
    """A text of a Lua module and what is put in its place.

    Attributes:
        rule: what is broken then, as the search says it; a regular expression.
        steps: of the shortest way to it, with two messages.
    """

    rule: str
    steps: int
    scope: str
    file: str
    text: str
    instead: str = ""

    def verbs(self) -> Joined:
        """The verbs with this fault."""
        source = (LUA / f"{self.file}.lua").read_text()
        assert source.count(self.text) == 1, f"{self.file}.lua has changed: plant the fault anew"
        return Joined({**MOVED_CLOCK.modules, self.file: source.replace(self.text, self.instead)})


FAULTS = {
    "a message leaves its index": Fault(
        "I1: a message is nowhere", 4, "deliveries", "upkeep", "redis.call('ZADD', q.ready, unpack(moved))"
    ),
    "the dead are dropped": Fault(
        "I1: m0 was leased -",
        2,
        "deliveries",
        "judge",
        "ends_as, q.now\n    Places.put(q, id, state, head)",
        "ends_as, q.now\n    Places.drop(q, { id })",
    ),
    "a lease stays without its claim": Fault(
        "I1: t0 has a lease, and no claim",
        3,
        "deliveries",
        "leases",
        "redis.call('ZREM', q.leases, token) -- last",
        "-- last",
    ),
    "an item that is there twice counts twice": Fault(
        "I1: the totals", 2, "sessions", "session", "held and not share.taken[id] then", "held then"
    ),
    "a session counts an item twice": Fault(
        "I1: the totals", 2, "commits", "session", "held and not share.taken[id] then", "held then"
    ),
    "what is dropped is not counted": Fault(
        "I1: the totals",
        2,
        "discarding",
        "judge",
        "redis.call('HINCRBY', q.counters, 'discarded', Places.drop(q, { id }))",
        "Places.drop(q, { id })",
    ),
    "anyone settles what is held": Fault(
        "I1: t0 holds", 2, "deliveries", "state", "return ' +' .. token .. ' '", "return ' +'"
    ),
    "a claim that is repeated gives others": Fault(
        "I1: t[09] holds", 1, "deliveries", "claim", "return holding\n", "return false\n"
    ),
    "a lease is taken too early": Fault(
        "I2: m0 was taken from t0",
        2,
        "deliveries",
        "upkeep",
        "q.leases, '-inf', q.now,",
        "q.leases, '-inf', '+inf',",
    ),
    "who lost a lease is told that it settled": Fault(
        "I2: t0 would be told", 3, "deliveries", "upkeep", "state.token = ''", "state.reason = ''"
    ),
    "a known message is sent again": Fault(
        "I2: it was not its to do", 1, "sends", "send", "existing[n] or seen and", "seen and"
    ),
    "a number is not compared": Fault(
        r"I12: told Taken\(.*known={}\), and repeated Taken\(.*known={0: Place",
        3,
        "sends",
        "register",
        "tonumber(number) <=",
        "tonumber(number) <",
    ),
    "a delivery is not counted": Fault(
        "I3, I4: m0 had",
        1,
        "deliveries",
        "deliver",
        "' 1 0 0 0 0 0 ' .. NOT_DELAYED",
        "' 0 0 0 0 0 0 ' .. NOT_DELAYED",
    ),
    "a redrive forgets": Fault(
        "I3, I4: m0 had",
        3,
        "redrives",
        "redrive",
        "delay, state.redriven =",
        "deliveries, state.redriven =",
    ),
    "a failure is charged twice": Fault(
        "I3, I4: m0 had", 2, "deliveries", "judge", "failure.charge and 1", "failure.charge and 2"
    ),
    "a delay ends early": Fault(
        "I5: m0 became ready 1000 ms early",
        3,
        "deliveries",
        "upkeep",
        "q.scheduled, '-inf', q.now,",
        "q.scheduled, '-inf', q.now + 1000,",
    ),
    "a delay is too short": Fault(
        "I5: m0 is due in 999 ms", 2, "deliveries", "order", "= q.now + delay\n", "= q.now + delay - 1\n"
    ),
    "one redelivery too many": Fault(
        "I6: m0 is spent, and scheduled",
        4,
        "deliveries",
        "judge",
        "charged > limit",
        "charged > limit + 1",
    ),
    "a failure is not told": Fault(
        "I6: the story of m0 tells",
        2,
        "deliveries",
        "judge",
        "History.remember(q, id, event, State.attempts(state), delay, failure.consumer, failure.error)",
    ),
    "the first lapse under a worker is charged": Fault(
        "I3, I4: m0 had",
        3,
        "workers",
        "upkeep",
        "failure.charge, failure.delay, failure.forgiven = false, 0, true",
        "failure.delay = 0",
    ),
    "every lapse under a worker is forgiven": Fault(
        "I3, I4: m0 had",
        5,
        "workers",
        "upkeep",
        "kind == 'worker' and state.lapsed == 0",
        "kind == 'worker'",
    ),
    "a suspect is taken with others": Fault(
        "suspects: of", 3, "workers", "choose", "#c.rows == 0, alone", "#c.rows == 0, false"
    ),
    "a suspect is taken after others": Fault(
        "suspects: of", 5, "workers", "choose", "alone and #c.rows == 0, alone", "alone, alone"
    ),
    "a worker that runs a suspect takes another": Fault(
        "suspects: of",
        3,
        "workers",
        "choose",
        "return not suspect or alone and #c.rows == 0, alone",
        "return true, alone",
    ),
    "a redelivery outlives its message": Fault(
        "I7: m1 would fall due too late",
        2,
        "times to live",
        "judge",
        "q.now + delay >= expiry",
        "q.now >= expiry",
    ),
    "what expired still waits": Fault(
        "I7: .'m1'. have expired", 2, "times to live", "claim", "  Upkeep.expire_over(q, STEPS)\n"
    ),
    "the last come first": Fault(
        "I8: .'m1'. came before", 1, "deliveries", "choose", "'ZRANGE', c.index, '", "'ZREVRANGE', c.index, '"
    ),
    "what is released goes to the end": Fault(
        "I8: m0 did not return",
        2,
        "deliveries",
        "settle",
        "State.expiry_of(head, state)\n  state.released = state.released + 1\n",
        "State.expiry_of(head, state)\n  state.released, state.due = state.released + 1, q.now\n",
    ),
    "who repeats a nack is told that the lease is lost": Fault(
        "I12: ", 2, "deliveries", "leases", "return Reply.SETTLED_BEFORE", "return Reply.LOST"
    ),
    "a session that is repeated loses its reply": Fault(
        "I12: ",
        2,
        "commits",
        "session",
        "not done and (refusal(shares) or",
        "(refusal(shares) or not done and",
    ),
    "a message leaves its story behind": Fault(
        "I13: something is left of",
        4,
        "deliveries",
        "places",
        "redis.call('HDEL', q.history, unpack(ids))",
    ),
    "what is kept is dropped early": Fault(
        "I14: m0 was dropped early", 2, "retired", "upkeep", "q.now - kept_for", "q.now"
    ),
    "who claims leaves what lapsed": Fault(
        "I15: .'t0'. have lapsed", 3, "deliveries", "claim", "lapsed + due + over", "due + over"
    ),
    "what is released wakes no one": Fault(
        "I15: what is ready wakes no one",
        2,
        "deliveries",
        "settle",
        "Rates.give_back(q, token, count)\n    end\n    Queue.wake(q)\n",
        "Rates.give_back(q, token, count)\n    end\n",
    ),
}
