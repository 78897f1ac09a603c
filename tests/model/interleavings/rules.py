"""What must hold of every step: what may happen to a message, and what that must look like.

The rules are said of messages, not of keys: whether keys agree is seen when they are read (`world`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from tests.model.interleavings.reduced import NOW, TICK
from tests.model.interleavings.verbs import POLICY, Variant
from tests.model.interleavings.world import Counts, Message, Queue

BUDGET = POLICY.max_redeliveries or 0
DISCARDING = {"dead_letter": '{"dead": "discard"}'}
KEPT = TICK  # milliseconds
RETIRING = {"dead_letter": f'{{"dead_for": {KEPT}, "expired_for": {KEPT}}}'}
SETTLES = {
    "ack": "acked", "ack all": "acked", "commit": "acked", "nack": "nacked", "nack at once": "nacked",
    "poison": "poisoned", "release": "released",
}  # fmt: skip
GOES = {
    "ack": "acked", "ack all": "acked", "commit": "acked", "ack a claim": "acked", "purge": "purged",
    "retire": "discarded",
}  # fmt: skip
COUNTED = {
    "delivered": Counts(delivered=1),
    "nacked": Counts(charged=1, nacked=1),
    "lapsed": Counts(charged=1, lapsed=1),
    "forgiven": Counts(lapsed=1),
    "kept": Counts(charged=1, nacked=1),
    "released": Counts(released=1),
    "redriven": Counts(redriven=1),
}
TOLD = {"nacked", "lapsed", "forgiven", "poisoned", "kept", "dead_lettered", "redriven"}
TOTALS = {"nacked", "lapsed", "forgiven", "kept", "released", "redriven", "exhausted", "poison", "expired"}
COUNTED_AS = {"forgiven": "lapsed", "kept": "nacked"}


class Step(NamedTuple):
    """A verb and its arguments, the world in which it was done, and what came of it.

    refused: it must have changed nothing.
    """

    before: Queue
    verb: str
    args: tuple[Any, ...]
    refused: bool
    reply: Any
    after: Queue


def is_same(step: Step) -> bool:
    """Whether it has changed nothing, but counted the dead letters that blocked a send."""
    totals = Counter(step.before.totals) + Counter(known=blocked(step))
    return replace(step.before, totals=totals) == replace(step.after, totals=Counter(step.after.totals))


def blocked(step: Step) -> int:
    """How many messages were not sent, since a dead letter has their id."""
    sent: tuple[str, ...] = ()
    if step.verb in {"send", "send later"}:
        sent = step.args[0]
    elif step.verb == "commit" and not step.reply.lost:
        sent = step.args[1]
    before = step.before.messages
    return sum(name in before and before[name].place == "dead" for name in sent)


class Change(NamedTuple):
    """What a step made of a message that still is there."""

    step: Step
    name: str
    old: Message
    new: Message


def check(step: Step, variant: Variant) -> None:
    """Raise an AssertionError that names the invariant."""
    assert not step.refused or is_same(step), "I2: it was not its to do, and changed something"
    before, after = step.before.messages, step.after.messages
    totals = Counter(sent=len(before)) if step.verb == "reset" else Counter(step.before.totals)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            move = f"{old.place if old else '-'} {new.place if new else '-'}"
            dropped = step.before.settings == DISCARDING and move == "leased -"
            assert move in variant.moves or dropped, f"I1: {name} was {move}"
            totals.update(became(step, name, old, new))
    totals += Counter(known=blocked(step))
    assert totals == Counter(step.after.totals), f"I1: the totals are {step.after.totals}, not {totals}"
    check_leases(step)
    ready = any(message.place == "ready" for message in after.values())
    closed = step.after.settings.keys() & {"paused", "max_in_flight"}  # who waits looks again each second
    assert step.after.woken or closed or not ready, "I15: what is ready wakes no one"
    assert step.verb == "pause" or step.before.settings == step.after.settings, "the settings are others"


def became(step: Step, name: str, old: Message | None, new: Message | None) -> list[str]:
    """Check what became of a message; what is counted of it."""
    if new is None:
        return [] if old is None else gone(step, name, old)
    if old is None:
        return sent(step, new)
    change = Change(step, name, old, new)
    seen = list(events(change))
    told = ["lapsed" if event == "forgiven" else event for event in seen if event in TOLD]
    if old.place == "expired" and new.place not in {"expired", "leased"}:
        told.insert(0, "expired")
    stays = len(old.story)
    if told == ["kept"] and old.story[-1].startswith(b"kept\t"):
        stays -= 1  # of such failures the newest is told
    said = [line.split(b"\t")[0].decode() for line in new.story[stays:]]
    assert said == told, f"I6: the story of {name} tells {said}, after {told}"
    counts = [old.counts, *(COUNTED[event] for event in seen if event in COUNTED)]
    expected = Counts(*map(sum, zip(*counts, strict=True)))
    expected = expected._replace(charged=0) if "redriven" in seen else expected
    assert new.counts == expected, f"I3, I4: {name} had {old.counts}, has {new.counts}, after {seen}"
    assert (old.birth, old.expires) == (new.birth, new.expires), f"I8: {name} was born anew"
    assert old.flags == new.flags or step.verb == "prioritize", f"I8: {name} has priority {new.priority}"
    for event in seen:
        if event in CHECKS:
            CHECKS[event](change)
    return [COUNTED_AS.get(event, event) for event in seen if event in TOTALS]


def events(change: Change) -> Iterator[str]:
    """What happened to it."""
    step, name, old, new = change
    handed_on = step.verb == "divide a claim"
    if old.place == "leased" and not handed_on:
        cause = leaves(step, name, old)
        if old.part == "live" or cause == "released":
            yield cause
        elif cause in {"nacked", "poisoned"}:  # a dead letter stays one; a lapse leaves it as it was
            yield "kept"
        told_so = new.token == old.token and not new.holder
        assert step.verb in SETTLES or not told_so, f"I2: {old.token} would be told that it settled {name}"
    elif step.verb == "dead-letter":
        yield "dead_lettered"
    elif step.verb in {"prioritize", "deliver now", "divide a claim"}:
        yield step.verb
    elif (old.place, new.place) == ("scheduled", "ready"):
        yield "promoted"
    if new.part != old.part:
        yield "redriven" if new.part == "live" else new.reason
    if new.place == "leased" and not handed_on:
        yield "delivered"


def leaves(step: Step, name: str, old: Message) -> str:
    """I2: only who holds a message settles it, or the end of the lease."""
    if step.verb in SETTLES:
        assert (name, old.token) in step.args[0], f"I2: {name} was settled by who does not hold it"
        return SETTLES[step.verb]
    claim = step.before.claims[old.token]
    assert claim.until <= NOW, f"I2: {name} was taken from {old.token} before its lease lapsed"
    return "forgiven" if claim.by_worker and not old.counts.lapsed else "lapsed"


# What each event must look like


def sent(step: Step, new: Message) -> list[str]:
    newest = max((message.birth for message in step.before.messages.values()), default=0)
    assert new.birth > newest, "I8: it was born before what was sent earlier"
    assert (new.counts, new.story, new.part) == (Counts(), (), "live")
    assert new.due == (NOW + TICK if step.verb == "send later" else new.born), f"I5: it is due at {new.due}"
    return ["sent"]


def gone(step: Step, name: str, old: Message) -> list[str]:
    """I1, I14: what is gone was acked, removed or dropped, and is counted."""
    if step.verb == "ack a claim":
        assert step.args == (old.token,), f"I2: {name} was acked by who does not hold it"
    if step.verb == "retire":
        assert old.due <= NOW - KEPT, f"I14: {name} was dropped early"
    if step.verb in GOES and step.verb not in SETTLES:
        return [GOES[step.verb]]
    cause = leaves(step, name, old)
    if step.verb in GOES:
        return [cause]
    spent = old.counts.charged + 1 > BUDGET
    assert spent or cause == "poisoned", f"I6: {name} was dropped, and had a redelivery left"
    return ["poison", "discarded"] if cause == "poisoned" else [cause, "exhausted", "discarded"]


def failed(change: Change) -> None:
    """Dead when it is spent, expired where the time is too short, else to be redelivered."""
    step, name, old, new = change
    delay = 0 if step.verb == "nack at once" else TICK
    if old.counts.charged + 1 > BUDGET:
        assert (new.part, new.reason) == ("dead", "exhausted"), f"I6: {name} is spent, and {new.place}"
    elif old.ends is not None and NOW + delay >= old.ends:
        assert new.part == "expired", f"I7: {name} would fall due too late, and is {new.place}"
    elif delay:
        assert new.place == "scheduled", f"I5: {name} is to wait, and is {new.place}"
        assert new.due == NOW + delay, f"I5: {name} is due in {new.due - NOW} ms, not in {delay}"
    else:
        returned(change)


def returned(change: Change) -> None:
    assert change.new.due == change.old.due, f"I8: {change.name} did not return to its old place"


def died(change: Change) -> None:
    step, name, _, new = change
    assert new.due == NOW, f"{name} died at {new.due}"
    by_hand = step.verb in {"poison", "dead-letter"}
    assert (new.reason == "exhausted") == (not by_hand), f"I6: {name} died {new.reason}"
    assert by_hand or new.counts.charged > BUDGET, f"I6: {name} died, and had a redelivery left"


def expired(change: Change) -> None:
    step, name, old, new = change
    assert new.due == NOW, f"{name} expired at {new.due}"
    waits = TICK if old.place == "leased" and step.verb != "nack at once" else 0
    over = old.ends is not None and old.ends <= NOW + waits
    assert over or step.verb == "expire now", f"I7: {name} expired early"


def kept(change: Change) -> None:
    returned(change)
    _, name, old, new = change
    assert (new.part, new.reason) == (old.part, old.reason), f"I6: {name} died anew"
    assert new.rests == NOW + TICK, f"{name} rests for {new.rests - NOW} ms"


def promoted(change: Change) -> None:
    _, name, old, new = change
    assert old.due == new.due <= NOW, f"I5: {name} became ready {old.due - NOW} ms early"


def redriven(change: Change) -> None:
    assert change.new.due == NOW, f"I8: {change.name} is due at {change.new.due}"


def delivered(change: Change) -> None:
    step, name, _, new = change
    assert new.due <= NOW, f"I5: {name} was handed out {new.due - NOW} ms early"
    assert change.old.rests <= NOW, f"I5: {name} was handed out while it rested"
    assert new.token == step.args[0], f"I2: {name} was handed to {new.token}"
    if new.part == "live":
        assert new.counts.charged <= BUDGET, f"I6: {name} is spent, and was handed out"
        assert new.ends is None or new.ends > NOW, f"I7: {name} has expired, and was handed out"


def delivered_now(change: Change) -> None:
    _, name, old, new = change
    assert new.due == min(NOW, old.born), f"I8: {name} is due at {new.due}, not where it was born"


def prioritized(change: Change) -> None:
    step, name, old, new = change
    returned(change)
    assert new.flags - old.flags == step.args[2] - old.priority, f"I8: {name} has priority {new.priority}"


def divided(change: Change) -> None:
    step, name, old, new = change
    assert (old.token, new.token) == step.args[:2], f"I2: {name} went from {old.token} to {new.token}"
    assert old._replace(token=new.token) == new, f"I2: {name} was changed"


CHECKS: dict[str, Callable[[Change], None]] = {
    "nacked": failed, "lapsed": failed, "forgiven": returned, "released": returned, "exhausted": died,
    "kept": kept, "poison": died, "expired": expired, "promoted": promoted, "redriven": redriven,
    "delivered": delivered, "prioritize": prioritized, "deliver now": delivered_now,
    "divide a claim": divided,
}  # fmt: skip


def check_leases(step: Step) -> None:
    """I2: a lease is its holder's to change, or its end's."""
    for token, claim in step.after.claims.items():
        old = step.before.claims.get(token)
        if old is None:
            divided = step.verb == "divide a claim"
            assert "claim" in step.verb, f"I2: {token} was given a lease"
            assert token == step.args[divided], f"I2: {token} was given a lease"
            until = step.before.claims[step.args[0]].until if divided else NOW + TICK
        else:
            until = NOW + TICK if extends(step, token) else old.until
        assert claim.until == until, f"I2: the lease of {token} ends after {claim.until - NOW} ms"


def extends(step: Step, token: str) -> bool:
    if step.verb == "extend":
        return any((name, token) in step.args[0] for name in step.before.held_by(token))
    return step.verb in {"claim again", "extend a claim"} and step.args[0] == token
