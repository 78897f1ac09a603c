"""What must hold of every reply: whoever is told that something was done, by them and no one else, it was."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from rq_dlq.core.claiming.calls import Claimed
from rq_dlq.core.sending.calls import Taken
from rq_dlq.core.steps.replies import Word
from tests.model.interleavings.actions import ALL, lapsed
from tests.model.interleavings.reduced import NOW
from tests.model.interleavings.rules import KEPT, SETTLES, Step
from tests.model.interleavings.world import WAITING, Message, Queue
from tests.verbs import Again

BY_IDS = {"redrive", "purge", "dead-letter", "expire now", "deliver now", "prioritize"}
WORKERS = {"claim as a worker", "claim past suspects"}
WHOLE = {"ack all", "commit"}  # all or nothing


def check_reply(step: Step) -> None:
    """Raise an AssertionError that names the invariant."""
    if isinstance(step.reply, Claimed):
        check_claimed(step, step.reply)
    elif step.verb in {*SETTLES, "extend"}:
        check_settled(step)
    elif step.verb in BY_IDS:
        place, ids = step.args[:2]
        there = [name for name in ids if step.before.messages[name].place == place]
        assert step.reply == len(there), f"told of {step.reply}, not of {there}"
    elif step.verb in EXPECTED:
        expected = EXPECTED[step.verb](step)
        assert without_births(step.reply) == expected, f"told {step.reply}, not {expected}"


def check_settled(step: Step) -> None:
    """I2: each is told what holds for it; what was refused changed nothing."""
    items, *_ = step.args
    held, done = [], set[str]()
    for name, token in items:
        held.append(name in step.before.held_by(token) and name not in done)
        done |= {name} if held[-1] and step.verb != "extend" else set()
    if step.verb in WHOLE:
        lost = [name for name, token in items if name not in step.before.held_by(token)]
        assert [*step.reply.lost] == lost, f"I2: told of {step.reply}, not of {lost}"
        held = [] if lost else held
    else:
        said = [bool(one) for one in (step.reply[1] if step.verb == "extend" else step.reply)]
        assert said == held, f"I2: told {said}, not {held}"
    assert any(held) or step.before == step.after, "I2: all was refused, and something changed"


def rank(message: Message) -> tuple[int, ...]:
    """I8: priority, due time, send order; of those due together the ones that came back are first."""
    first = -message.priority if message.part == "live" else 0
    at_birth = message.due == message.born
    return (first, message.due, at_birth, 0 if at_birth else -message.priority, message.birth)


def check_claimed(step: Step, reply: Claimed) -> None:
    given, after = [row.id for row in reply.rows], step.after.messages
    for row in reply.rows:
        delivered = int(row.state.split(b" ")[3])
        assert delivered == after[row.id].counts.delivered, f"I3: {row.id} is given as delivery {delivered}"
    if step.verb == "claim again":
        held = step.before.held_by(step.args[0])
        assert given == held, f"I12: {given} were given again, of {held}"
        return
    fresh, count = step.args
    taken = [name for name, message in after.items() if message.holder == fresh]
    assert sorted(given) == sorted(taken), f"I1: {given} were handed out, {taken} are leased"
    ranks = [rank(after[name]) for name in given]
    assert ranks == sorted(ranks), f"I8: handed out in the order {given}"
    place = "dead" if step.verb == "claim the dead" else "ready"
    left = [name for name, message in after.items() if message.place == place and message.rests <= NOW]
    room = count if place == "dead" else min(count, has_room(step.after) + len(given))
    if step.verb in WORKERS:
        check_suspects(step, given, left, room)
        check_kept_up(step.after)
        return
    assert len(given) == min(room, len(given) + len(left)), f"I15: {given} of {count}, {left} are left"
    assert all(rank(after[name]) > ranks[-1] for name in left if ranks), f"I8: {given} came before {left}"
    waits: int | Word = 0 if left and room else Word.NO_EVENT
    if place == "dead":
        rests = [message.rests for message in after.values() if message.place == place]
        waits = Word.NO_EVENT if given or not rests else min(rests) - NOW
    assert reply.wait == waits, f"told to wait {reply.wait}"
    check_kept_up(step.after)


def check_suspects(step: Step, given: list[str], left: list[str], room: int) -> None:
    """A worker takes one suspect alone, or while its process runs one it looks past them."""
    after = step.after.messages
    stood = sorted([*given, *left], key=lambda name: rank(after[name]))
    fresh = [name for name in stood if not after[name].counts.lapsed]
    if step.verb == "claim as a worker":
        fresh = list(takewhile(lambda name: name in fresh, stood)) or stood[:1]
    assert given == fresh[:room], f"suspects: of {stood} {given} were handed out, not {fresh[:room]}"
    expected = 0 if left and room else Word.NO_EVENT
    if step.verb == "claim past suspects" and expected == 0 and not given:
        expected = Word.SUSPECTS
    assert step.reply.wait == expected, f"told to wait {step.reply.wait}"


def has_room(queue: Queue) -> int:
    """How many more may be in flight."""
    if "paused" in queue.settings:
        return 0
    in_flight = sum(message.place == "leased" for message in queue.messages.values())
    return max(0, int(queue.settings.get("max_in_flight", ALL)) - in_flight)


def check_kept_up(queue: Queue) -> None:
    """I15: who claims has done first what was to be done."""
    assert not lapsed(queue), f"I15: {lapsed(queue)} have lapsed"
    waiting = {name: m for name, m in queue.messages.items() if m.place in WAITING}
    late = [name for name, m in waiting.items() if m.place == "scheduled" and m.due <= NOW]
    assert not late, f"I15: {late} are due"
    over = [name for name, m in waiting.items() if m.ends is not None and m.ends <= NOW]
    assert not over, f"I7: {over} have expired"


def swept(step: Step) -> int:
    """As many as were looked at, whether they are still held or not."""
    limit: int = step.args[0]
    there = [len([name for name in step.before.claims[token].given if name]) for token in lapsed(step.before)]
    return min(limit, sum(there))


def due(step: Step) -> int:
    there = [m for m in step.before.messages.values() if m.place == "scheduled" and m.due <= NOW]
    return min(int(step.args[0]), len(there))


def over(step: Step) -> int:
    waiting = [message for message in step.before.messages.values() if message.place in WAITING]
    return min(
        int(step.args[0]), sum(message.ends is not None and message.ends <= NOW for message in waiting)
    )


def retired(step: Step) -> int:
    old = [m for m in step.before.messages.values() if m.place in {"dead", "expired"} and m.due <= NOW - KEPT]
    return min(int(step.args[0]), len(old))


def divided(step: Step) -> int:
    """The other token has what it had; or, new, all but the first of them."""
    token, to, keep = step.args
    had, moved = step.before.held_by(to), step.before.held_by(token)[keep:]
    return len(had) if to in step.before.claims else len(moved)


def known(step: Step) -> dict[int, tuple[str, bool]]:
    messages = step.before.messages
    return {
        place: (messages[name].place, False) for place, name in enumerate(step.args[0]) if name in messages
    }


def without_births(reply: Any) -> Any:
    """A reply without the births in it, which move with the clock of a walk."""
    if not isinstance(reply, Taken):
        return reply
    return {place: (there.known, there.other_key) for place, there in reply.known.items()}


EXPECTED: dict[str, Callable[[Step], Any]] = {
    "sweep": swept,
    "promote": due,
    "expire": over,
    "retire": retired,
    "divide a claim": divided,
    "ack a claim": lambda step: len(step.before.held_by(step.args[0])),
    "extend a claim": lambda step: [step.args[0] in step.before.claims],
    "send": known,
    "send later": known,
    "reset": lambda step: len(step.before.messages),
    "pause": lambda step: (
        Word.UNCHANGED if (step.before.settings.get("paused") == "1") == step.args[0] else Word.DONE
    ),
}


def check_again(step: Step, again: Again, reply: Any, after: Queue) -> None:
    """I12: the same call once more changes nothing, and says that it is done."""
    assert after == step.after, "I12: repeated, it changed something more"
    if isinstance(reply, Claimed):
        assert [row.id for row in reply.rows] == [row.id for row in step.reply.rows], "I12: others were given"
    elif again is Again.SAME:
        assert reply == step.reply, f"I12: told {step.reply}, and repeated {reply}"
    elif again is Again.NOTHING_LEFT:
        assert not reply, f"I12: {reply}, once more"
    elif step.verb in SETTLES:
        for first, second in zip(step.reply, reply, strict=True):
            assert not first or second.outcome == "settled", f"I12: {first}, and repeated {second}"
    else:
        assert sorted(reply.known) == [*range(len(step.args[0]))], f"I12: of {step.args[0]} are known {reply}"
