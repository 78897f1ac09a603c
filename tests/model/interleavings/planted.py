"""Faults, planted in the Lua one at a time, which the search is to find."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rq_dlq._scripts import Scripts
from tests.conftest import MOVED_CLOCK

LUA = Path(__file__).parents[3] / "lua"


class Fault(NamedTuple):
    """A text of a Lua file and what is put in its place.

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

    def scripts(self) -> Scripts:
        """The scripts with this fault."""
        source = (LUA / f"{self.file}.lua").read_text()
        assert source.count(self.text) == 1, f"{self.file}.lua has changed: plant the fault anew"
        return Scripts({**MOVED_CLOCK.fragments, self.file: source.replace(self.text, self.instead)})


FAULTS = {
    "a message leaves its index": Fault(
        "I1: a message is nowhere", 4, "deliveries", "lib/promote", "redis.call('ZADD', ready, unpack(moved))"
    ),
    "the dead are dropped": Fault(
        "I1: m0 was leased -",
        2,
        "deliveries",
        "lib/bury",
        "put(id, state, head)",
        "-- needs: drop\n    drop({ id })",
    ),
    "a lease stays without its claim": Fault(
        "I1: t0 has a lease, and no claim", 3, "deliveries", "lib/sweep", "redis.call('ZREM', leases, token)"
    ),
    "an item that is there twice counts twice": Fault(
        "I1: the totals", 2, "sessions", "ack_all", "and not seen[id] then", "then"
    ),
    "a session counts an item twice": Fault(
        "I1: the totals", 2, "commits", "lib/read_share", "held and not seen[id] then", "held then"
    ),
    "what is dropped is not counted": Fault(
        "I1: the totals",
        2,
        "discarding",
        "lib/bury",
        "redis.call('HINCRBY', counters, 'discarded', drop({ id }))",
        "drop({ id })",
    ),
    "anyone settles what is held": Fault(
        "I1: t0 holds", 2, "deliveries", "lib/holds", "find(needle, 1, true)", "find(' +', 1, true)"
    ),
    "a claim that is repeated gives others": Fault(
        "I1: t[09] holds", 1, "deliveries", "lib/given_before", "if not holding then", "if true then"
    ),
    "a lease is taken too early": Fault(
        "I2: m0 was taken from t0", 2, "deliveries", "lib/sweep", "'-inf', now,", "'-inf', '+inf',"
    ),
    "who lost a lease is told that it settled": Fault(
        "I2: t0 would be told", 3, "deliveries", "lib/sweep_message", "state.token = ''", "state.reason = ''"
    ),
    "a known message is sent again": Fault(
        "I2: it was not its to do", 1, "sends", "lib/packed", "existing[n] or seen", "seen"
    ),
    "a number is not compared": Fault(
        "I12: told {}, and repeated {0: Place",
        3,
        "sends",
        "lib/done",
        "tonumber(number) <=",
        "tonumber(number) <",
    ),
    "a delivery is not counted": Fault(
        "I3, I4: m0 had", 1, "deliveries", "lib/chosen", "' 0000000000000 1 0", "' 0000000000000 0 0"
    ),
    "a redrive forgets": Fault(
        "I3, I4: m0 had",
        3,
        "redrives",
        "lib/bring_back",
        "delay, state.redriven =",
        "deliveries, state.redriven =",
    ),
    "a failure is charged twice": Fault(
        "I3, I4: m0 had", 2, "deliveries", "lib/judge", "failure.charge and 1", "failure.charge and 2"
    ),
    "a delay ends early": Fault(
        "I5: m0 became ready 1000 ms early",
        3,
        "deliveries",
        "lib/promote",
        "'-inf', now,",
        "'-inf', now + 1000,",
    ),
    "a delay is too short": Fault(
        "I5: m0 is due in 999 ms", 2, "deliveries", "lib/due_in", "= now + delay\n", "= now + delay - 1\n"
    ),
    "one redelivery too many": Fault(
        "I6: m0 is spent, and scheduled",
        4,
        "deliveries",
        "lib/judge",
        "charged > limit",
        "charged > limit + 1",
    ),
    "a failure is not told": Fault(
        "I6: the story of m0 tells",
        2,
        "deliveries",
        "lib/judge",
        "remember(id, event, attempts(state), delay, failure.consumer, failure.error)",
    ),
    "the first lapse under a worker is charged": Fault(
        "I3, I4: m0 had",
        3,
        "workers",
        "lib/sweep_message",
        "failure.charge, failure.delay, failure.forgiven = false, 0, true",
        "failure.delay = 0",
    ),
    "every lapse under a worker is forgiven": Fault(
        "I3, I4: m0 had",
        5,
        "workers",
        "lib/sweep_message",
        "kind == 'worker' and state.lapsed == 0",
        "kind == 'worker'",
    ),
    "a suspect is taken with others": Fault(
        "suspects: of", 3, "workers", "lib/past_suspects", "if alone or #found", "if #found"
    ),
    "a suspect is taken after others": Fault(
        "suspects: of", 5, "workers", "lib/past_suspects", "alone and #found == 0 then", "alone then"
    ),
    "a worker that runs a suspect takes another": Fault(
        "suspects: of",
        3,
        "workers",
        "lib/past_suspects",
        "if not suspect or alone and #found == 0 then",
        "if true then",
    ),
    "a redelivery outlives its message": Fault(
        "I7: m1 would fall due too late",
        2,
        "times to live",
        "lib/judge",
        "now + delay >= expiry",
        "now >= expiry",
    ),
    "what expired still waits": Fault(
        "I7: .'m1'. have expired", 2, "times to live", "lib/behind", "  expire(STEPS)\n"
    ),
    "the last come first": Fault(
        "I8: .'m1'. came before", 1, "deliveries", "lib/rows", "'ZRANGE', source", "'ZREVRANGE', source"
    ),
    "what is released goes to the end": Fault(
        "I8: m0 did not return",
        2,
        "deliveries",
        "release",
        "state.released = state.released + 1",
        "state.released, state.due = state.released + 1, now",
    ),
    "who repeats a nack is told that the lease is lost": Fault(
        "I12: ", 2, "deliveries", "lib/refusal", "return SETTLED_BEFORE", "return LOST"
    ),
    "a session that is repeated loses its reply": Fault(
        "I12: ", 2, "commits", "commit", "done and {} or q.lost", "q.lost"
    ),
    "a message leaves its story behind": Fault(
        "I13: something is left of",
        4,
        "deliveries",
        "lib/gone",
        "redis.call('HDEL', history, unpack(ids))",
    ),
    "what is kept is dropped early": Fault(
        "I14: m0 was dropped early", 2, "retired", "retire", "now - kept_for", "now"
    ),
    "who claims leaves what lapsed": Fault(
        "I15: .'t0'. have lapsed", 3, "deliveries", "lib/behind", "lapsed + fallen_due", "fallen_due"
    ),
    "what is released wakes no one": Fault(
        "I15: what is ready wakes no one", 2, "deliveries", "release", "  wake_one()\nend)", "end)"
    ),
}
