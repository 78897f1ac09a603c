"""Does everything twice: on a server and in the model (T2)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from rq_dlq._keys import QueueKeys
from rq_dlq.core.batches import batches
from rq_dlq.core.batches import calls as batch_calls
from rq_dlq.core.claiming.calls import Claimed, Suspects
from rq_dlq.core.sending import calls as sending_calls
from rq_dlq.core.settling import calls as settling_calls
from rq_dlq.core.steps.call import Call, Part
from rq_dlq.core.steps.replies import Word
from rq_dlq.core.steps.step import MOST
from rq_dlq.core.upkeep import calls as upkeep_calls
from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.key import lane_of
from rq_dlq.values.message import Received
from rq_dlq.values.settlement import Settlement
from tests.audit import audit
from tests.conftest import Clock
from tests.model.actions import (
    ACTIONS,
    HALF,
    IDS,
    NUMBERS,
    SETTLING,
    Keying,
    keyings,
    policies,
    strategies,
    windows,
)
from tests.model.driver import CAUSE, CODEC, Driver
from tests.model.operated_model import OperatedModel
from tests.model.operator_steps import OperatorSteps, check_places, same
from tests.model.queue_settings import Settings
from tests.model.session_steps import SessionSteps

MOST_DELAY = 2_000  # milliseconds


class Machine(OperatorSteps, SessionSteps, RuleBasedStateMachine):
    """One queue on a server and in the model; `raw` is a plain client of the server."""

    def __init__(self) -> None:
        super().__init__()
        self.raw.flushall()
        self.clock = Clock(self.raw)
        self.tokens: dict[str, list[str]] = {message_id: [] for message_id in IDS}
        self.drawn = 0
        self.told = True  # who waits is told of what is ready: nobody found the queue closed since
        self.settled: list[Call[list[Settlement]]] = []
        self.numbered = []
        self.staged, self.stream = [], {}

    @initialize(policy=policies, window=windows, keying=keyings, expired=strategies)
    def begin(self, policy: RedeliveryPolicy, window: int | None, keying: Keying, expired: str) -> None:
        per_key, key_of = keying
        lanes = {message_id: lane_of(key) for message_id, key in key_of.items()}
        self.queue = Driver(self.raw, policy, key_of=key_of)
        self.keys = self.queue.keys
        self.one_sender = self.queue.sender()
        settings = Settings(policy, expired=expired, dedup_window=window, per_key=per_key)
        self.model = OperatedModel(settings, self.clock.now, lanes)
        self.run(self.queue.configure_call(settings.wire()))
        self.other = Driver(self.raw, policy, keys=QueueKeys("rq", "other"), key_of=key_of)
        self.other_model = OperatedModel(Settings(policy, per_key=per_key), self.clock.now, lanes)
        if per_key:
            self.other.run(self.other.configure_call({"per_key": per_key}))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Any action that makes sense; rules of their own would be drawn where nothing is leased, mostly."""
        possible = self.possible()
        verb = possible[data.draw(NUMBERS) % len(possible)]
        note(f"# {verb}")
        arguments = data.draw(st.fixed_dictionaries(ACTIONS[verb][1]), label="arguments")
        getattr(self, verb)(**arguments)
        self.raw.pexpire(self.keys["wake"], 600_000)  # longer than a test: Redis' own clock is not moved

    def possible(self) -> list[str]:
        """The actions by their weights."""
        if not self.model.messages:
            return ["send"]
        weights = {verb: weight for verb, (weight, _) in ACTIONS.items()}
        if not self.model.leases:
            weights.update(dict.fromkeys(SETTLING, 0))
        if not self.model.at("ready"):
            weights["claim"] = 1
        if any(until <= self.model.now for until in self.model.leases.values()):
            weights["claim"] = weights["sweep"] = 9
        if not self.model.at("dead") + self.model.at("expired"):
            weights["redrive"] = 0
        else:
            weights["transfer"] = 6
        if not self.settled:
            weights["repeat_late"] = 0
        if not self.numbered:
            weights["repeat_numbered"] = 0
        if not self.other_model.messages:
            weights["purge_other"] = 0
        if self.model.paused:
            weights["pause"] = 6
        weights |= self.toward_a_late_copy() | self.toward_who_is_let_in(weights)
        return [verb for verb, weight in weights.items() for _ in range(weight)]

    def toward_a_late_copy(self) -> dict[str, int]:
        """Weights by which an id that was acked comes again when its window is half over."""
        if self.acked_long_ago():
            return {"send": 60}
        return {"step_clock": 30} if self.model.acked else {}

    def toward_who_is_let_in(self, weights: dict[str, int]) -> dict[str, int]:
        """Weights by which lanes fill; then seats are given back, and who is blocked changes places."""
        if not self.model.settings.per_key:
            return {}
        if not self.model.blocked():
            return {"send": 12}
        tried = {"poison", "nack", "expire", "dead_letter", "expire_now", "purge", "transfer", "cancel"}
        return {verb: 6 for verb in sorted(tried | {"prioritize"}) if 0 < weights[verb] < 6}

    def acked_long_ago(self) -> list[str]:
        """Ids that were acked more than half a window ago, and are known or not."""
        gone = self.model.acked.keys() - self.model.messages.keys()
        return sorted(name for name in gone if self.model.acked[name] <= self.model.now - HALF)

    # Sending and claiming

    def send(self, items: list[tuple[str, int]], delay: int, ttl: int, persistent: bool) -> None:
        items = [(name, 4) for name in self.acked_long_ago()[:1]] + items
        given = self.queue.packed(*items, persistent=persistent)
        call = sending_calls.send(self.sender(), delay=delay, ttl=ttl, items=given)
        known = self.model.send(items, delay=delay, ttl=ttl, persistent=persistent)
        taken = self.once(call)
        assert {n: (there.known, there.other_key) for n, there in taken.known.items()} == {
            n: (where, False) for n, where in known.items()
        }
        assert (taken.birth > 0) is (len(known) < len(items))

    def resend(self, items: list[tuple[str, int]], mode: str, delay: int, ttl: int, body: bytes) -> None:
        """Half of them are sent again on purpose: of what is where the mode applies."""
        where = {"redrive": "dead", "again": "leased", "replace": "ready", "debounce": "scheduled"}[mode]
        names = self.there(where, [name for name, _ in items])
        items = [(name, priority) for name, (_, priority) in zip(names, items, strict=True)]
        call = self.queue.resend_call(
            *items, mode=mode, delay=delay, ttl=ttl, body=body, max_delay=MOST_DELAY, sender=self.sender()
        )
        modelled = self.model.resend(items, mode, delay=delay, ttl=ttl, body=body, most=MOST_DELAY)
        taken = self.once(call)
        assert {n: (there.known, there.did) for n, there in taken.known.items()} == modelled

    def claim(
        self,
        *,
        part: Part,
        count: int,
        lease: int,
        seed: float,
        woken: bool,
        patience: int,
        alarmed: bool,
        suspects: Suspects,
        thorough: bool,
        lost: bool,
    ) -> None:
        if woken and part == "live":  # a client that was blocked claims at once
            self.raw.lpop(self.keys["wake"])
        suspects = suspects if part == "live" else "all"  # as clients claim
        self.drawn += 1
        token = f"t{self.drawn}"
        call = self.queue.claim_call(
            token, count, part=part, lease=lease, patience=patience, alarmed=alarmed, suspects=suspects,
            thorough=thorough, seed=seed,
        )  # fmt: skip
        claimed, again = self.run(call, lost=lost)
        given = self.model.claim(token, part, count, lease, seed, suspects=suspects, thorough=thorough)
        if self.model.behind and thorough:
            assert claimed.wait == 0
        elif part == "live":
            event = self.model.next_event()
            waits: set[int | Word] = {Word.NO_EVENT}
            if event is not None and event <= self.model.now + patience and not given:
                waits.add(event - self.model.now)
            open_door = self.model.room_was > 0
            if self.model.behind and not given and open_door:
                waits = {0}
            if self.model.at("ready") and open_door:
                waits = {Word.SUSPECTS if self.model.only_suspects else 0}
            assert claimed.wait in waits
            self.told = open_door
        elif not given:
            rests = [m.rests for m in self.model.at(part) if m.rests > self.model.now]
            wait = min(rests) - self.model.now if rests else Word.NO_EVENT
            assert claimed.wait == (0 if self.model.behind else wait)
        self.check_claimed(claimed, given, token)
        if again is not None:  # where nothing was given, it may be by now
            given = self.model.claim(token, part, count, lease, seed, suspects=suspects, thorough=thorough)
            self.check_claimed(again, given, token)

    def check_claimed(self, claimed: Claimed, given: list[str], token: str) -> None:
        assert claimed.now == self.clock.now
        assert [row.id for row in claimed.rows] == given
        for row in claimed.rows:
            self.tokens[row.id].append(token)
            same(Received(row, CODEC, "q"), self.model.messages[row.id])

    def claim_again(self, place: int, lease: int) -> None:
        """A claim whose outcome was not known is taken up again, later."""
        ((_, token),) = self.pairs([(place, "current")])
        claimed = self.queue.run(self.queue.claim_call(token, 2, lease=lease))
        assert [row.id for row in claimed.rows] == self.model.claim(token, "live", 2, lease, 0.25)

    # Settling

    def ack(self, items: list[tuple[int, str]], lost: bool) -> None:
        pairs = self.pairs(items)
        self.settle(settling_calls.ack(self.keys, pairs), self.model.ack(pairs), lost)

    def nack(
        self, items: list[tuple[int, str]], delay: int | None, charge: bool, seed: float, lost: bool
    ) -> None:
        pairs = self.pairs(items)
        call = settling_calls.nack(
            self.keys, pairs, delay=delay, charge=charge, cause=CAUSE, consumer='"c"', seed=seed,
            default_policy=self.queue.wire,
        )  # fmt: skip
        said = self.settle(call, self.model.nack(pairs, delay=delay, charge=charge, seed=seed), lost)
        for settlement in said:
            if settlement.outcome in {"redelivered", "kept"}:
                assert settlement.delay == self.model.messages[settlement.id].delay / 1000

    def poison(self, items: list[tuple[int, str]], reason: Any, seed: float, lost: bool) -> None:
        pairs = self.pairs(items)
        modelled = self.model.poison(pairs, reason, seed)
        self.settle(self.queue.poison_call(pairs, reason, seed), modelled, lost)

    def release(self, items: list[tuple[int, str]], begun: bool, lost: bool) -> None:
        pairs = self.pairs(items)
        call = settling_calls.release(self.keys, pairs, begun=begun)
        self.settle(call, self.model.release(pairs, begun=begun), lost)

    def pass_on(self, items: list[tuple[int, str]], mark: str, takers: list[str], lost: bool) -> None:
        pairs = self.pairs(items)
        modelled = self.model.pass_on(pairs, mark, takers)
        self.settle(self.queue.pass_on_call(pairs, mark, takers), modelled, lost)

    def extend(self, items: list[tuple[int, str]], lease: int, only_later: bool, lost: bool) -> None:
        pairs = self.pairs(items)
        call = settling_calls.extend(self.keys, pairs, lease=lease, only_later=only_later)
        reply, again = self.run(call, lost=lost)
        assert reply == (self.clock.now + lease, self.model.extend(pairs, lease, only_later=only_later))
        assert again is None or again == reply

    # Whole claims

    def ack_claim(self, item: tuple[int, str], lost: bool) -> None:
        ((_, token),) = self.pairs([item])
        if self.model.calls_of(token):  # no claim of Spark, which alone is acked so, has a cancelled one
            return
        acked, again = self.run(batch_calls.ack_claim(self.keys, token), lost=lost)
        assert acked == self.model.ack_claim(token)
        assert not again

    def divide_claim(self, item: tuple[int, str], keep: int, lost: bool) -> None:
        ((_, token),) = self.pairs([item])
        if self.model.calls_of(token):  # as above
            return
        self.drawn += 1
        to = f"t{self.drawn}"
        count, again = self.run(batch_calls.divide_claim(self.keys, token, to=to, keep=keep), lost=lost)
        moved = self.model.divide_claim(token, to, keep)
        assert count == len(moved)
        assert again is None or again == count
        for message_id in moved:
            self.tokens[message_id].append(to)

    def extend_claims(self, items: list[tuple[int, str]], lease: int, lost: bool) -> None:
        tokens = [token for _, token in self.pairs(items)]
        still, again = self.run(batch_calls.extend_claim(self.keys, tokens, lease=lease), lost=lost)
        assert still == [self.model.extend_claim(token, lease) for token in tokens]
        assert again is None or again == still

    def repeat_numbered(self, which: int) -> None:
        """The same of what a sender numbered; the last one that was done says what it said (I12)."""
        call, reply = self.numbered[which % len(self.numbered)]
        if call is self.numbered[-1][0]:
            assert (again := self.queue.run(call, repeated=True)) == reply, f"{again}, after {reply}"
        else:  # nobody waits for that reply, which is to the last one
            self.queue.run(Call(call.verb, call.keys, call.args, call.items, str, call.families))

    def repeat_late(self, which: int) -> None:
        """A call that was thought lost arrives after all: the model knows nothing of it (I2, I12)."""
        said = self.queue.run(self.settled[which % len(self.settled)])
        assert not any(said)

    def settle(self, call: Call[list[Settlement]], modelled: list[str], lost: bool) -> list[Settlement]:
        said, again = self.run(call, lost=lost)
        assert [settlement.outcome for settlement in said] == modelled
        for first, second in zip(said, again or [], strict=False):
            assert not first or second.outcome == "settled", f"{first} became {second}, repeated"
        self.settled.append(call)
        return list(said)

    def pairs(self, items: list[tuple[int, str]]) -> list[tuple[str, str]]:
        """Ids with tokens: mostly of what is leased, where something is."""
        leased = sorted(message.id for message in self.model.at("leased"))
        drawn = []
        for number, kind in items:
            choice = leased if leased and kind == "current" else IDS
            message_id = choice[number % len(choice)]
            tokens = self.tokens[message_id]
            back = {"current": 1, "stale": 2}.get(kind, len(tokens) + 1)
            drawn.append((message_id, tokens[-back] if back <= len(tokens) else "nobody"))
        return drawn

    # Maintenance, operators, time

    def sweep(self, limit: int, seed: float) -> None:
        call = upkeep_calls.sweep(self.keys, limit=limit, seed=seed, default_policy=self.queue.wire)
        assert self.queue.run(call) == self.model.sweep(limit, seed)

    def promote(self, limit: int) -> None:
        assert self.queue.run(upkeep_calls.promote(self.keys, limit=limit)) == self.model.promote(limit)

    def expire(self, limit: int) -> None:
        assert self.queue.run(upkeep_calls.expire(self.keys, limit=limit)) == self.model.expire(limit)

    def step_clock(self, span: int) -> None:
        self.clock.set(self.clock.now + span)
        self.model.now = self.other_model.now = self.clock.now

    # What must hold after every step

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        check_places(self.queue, self.model)
        leased = self.model.at("leased")
        found = self.queue.look_up([message.id for message in leased])
        for token in self.model.leases:
            held = self.queue.follow(batches.read_claim(self.keys, token, 0, MOST))
            assert [row.id for row in held.rows()] == [message.id for message in self.model.held_by(token)]
            maker = self.raw.hget(self.keys["claims"], token).split(b"\n")[0]
            assert maker == (b'"c"\tworker' if token in self.model.by_worker else b'"c"')
        for modelled in leased:
            message, until = found[modelled.id]
            same(message, modelled)
            assert until == self.model.leases[modelled.holder or ""]

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "model"):
            return
        audit(self.raw, "q")
        totals = {name.decode(): int(n) for name, n in self.raw.hgetall(self.keys["counters"]).items()}
        totals.pop("birth", None)
        assert {name: n for name, n in totals.items() if n} == +self.model.totals
        entries = self.raw.xrange(self.keys["outcomes"])
        told = Counter(fields[b"event"].decode() for _, fields in entries)
        assert told == self.model.outcomes

    @invariant()
    def wakes(self) -> None:
        """No wake-up is lost: where something can be claimed a token lies, and never more than one."""
        if not hasattr(self, "model"):
            return
        tokens = self.raw.llen(self.keys["wake"])
        assert tokens <= 1
        # What a full queue or a change of its settings lets through is found by those who look each second.
        claimable = self.model.at("ready") and self.told and not self.model.paused
        assert tokens or not claimable, "what is ready wakes no one"


def check(client: Any, examples: int, steps: int, draw: int | None = None, *, shortest: bool = True) -> None:
    """Compare the server of this client with the model.

    Args:
        draw: what is drawn follows from it; None: what hypothesis likes, which remembers what failed before.
        shortest: look for the shortest way to a difference, which may take minutes.
    """
    machine = type("QueueMachine", (Machine,), {"raw": client})
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=draw is None,
    )
    if not shortest:
        options = settings(options, phases=[phase for phase in options.phases if phase is not Phase.shrink])
    if draw is not None:
        machine, options = seed(draw)(machine), settings(options, database=None)
    run_state_machine_as_test(machine, settings=options)
