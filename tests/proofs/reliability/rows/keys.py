"""K1 to K8: messages with keys, whatever is done to them, and an outage of what they need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import redis

from rq_dlq import Breaker, Broker, Message, PerKey
from rq_dlq.policy.outage import Outage, OutagePlan, Spread
from tests import servers
from tests.benchmarks.dedup import spent
from tests.model.lanes import RATED, drive, turns
from tests.model.outage import suffer
from tests.model.scenes import DOUBTFUL, SCENES, Seen, play
from tests.proofs.reliability.row import Figures, Row, Run

SHARE = 25  # draws of one task
APART = 0.1  # of the largest share
WASTED = 230  # attempts: 20, what was in work then, and three a probe
DRAINED = 60  # seconds after the repair
IN_ONE, TAKEN = 100, 10  # messages: the limit of the one lane; of a claim
DEARER = 1.3  # the price where many wait, of that where few do


def attempt(mode: str, draws: Sequence[int], steps: int, how: dict[str, bool]) -> tuple[int, int, int, str]:
    """On a server of its own: attempts, redrives and cuts, and the first rule that did not hold."""
    attempts = redriven = cuts = 0
    with servers.running() as path, redis.Redis(unix_socket_path=path, socket_timeout=60) as client:
        for draw in draws:
            try:
                done = drive(client, mode, draw, steps, **how)
            except AssertionError as error:
                return attempts, redriven, cuts, f"{mode}, draw {draw}: {error}"
            attempts, redriven, cuts = attempts + done.attempts, redriven + done.redriven, cuts + done.cuts
    return attempts, redriven, cuts, ""


def _driven(run: Run, modes: Sequence[str], **how: bool) -> Figures:
    draws, steps = run.pick(short=(20, 150), whole=(400, 250), soak=(4_000, 250))
    first = run.random.getrandbits(24)
    tasks = [
        (mode, range(at, min(at + SHARE, first + draws)), steps, how)
        for mode in modes
        for at in range(first, first + draws, SHARE)
    ]
    results = run.in_processes(attempt, tasks)
    attempts, redriven = sum(result[0] for result in results), sum(result[1] for result in results)
    cuts, wrong = sum(result[2] for result in results), [result[3] for result in results if result[3]]
    for said in wrong:
        run.progress.console.print(said, markup=False)
    note = f"{', '.join(modes)}: {attempts:,} attempts, {redriven:,} redrives, {cuts:,} scripts cut off"
    note += f"; {len(wrong)} broken" + "".join(f": {said}" for said in wrong[:1])
    return Figures(trials=attempts, met=not wrong and attempts > 0, note=note)


def order(run: Run) -> Figures:
    """Both modes of order, each also beside a rate."""
    return _driven(run, ("order", "order hold", "order rate 4/s", "order hold rate 4/s"))


def exclusivity(run: Run) -> Figures:
    """A rule that is turned on over a full queue."""
    return _driven(run, ("limit 2", "order", "limit 2 rate 4/s"), turned_on=True)


def liveness(run: Run) -> Figures:
    """Half of all scripts are cut off."""
    return _driven(run, ("order", "order hold", "limit 2", "fair 2", *RATED), cut_off=True)


def rates(run: Run) -> Figures:
    """Alone and beside each mode; over an empty queue, and turned on over a full one."""
    plain, over_full = _driven(run, RATED), _driven(run, RATED, turned_on=True)
    return Figures(
        trials=plain.trials + over_full.trials,
        met=plain.met and over_full.met,
        note=f"{plain.note}; {over_full.note}",
    )


def gates(run: Run) -> Figures:
    """Breakers and pauses among all else that is done; half of the time scripts are cut off."""
    plain = _driven(run, ("order", "limit 2"), outages=True)
    cut = _driven(run, ("order", "limit 2"), outages=True, cut_off=True)
    return Figures(
        trials=plain.trials + cut.trials, met=plain.met and cut.met, note=f"{plain.note}; {cut.note}"
    )


def suffered(draws: Sequence[int]) -> list[tuple[Outage, list[str]]]:
    """Outages, on a server of its own, and the rules that did not hold."""
    with servers.running() as path:
        return [suffer(f"unix://{path}", OutagePlan(breaker=Breaker()), draw) for draw in draws]


def outages(run: Run) -> Figures:
    """Thirty minutes in which 40 % of the work needs what is down; then breakers and pauses in any order."""
    trials = run.pick(short=1, whole=20, soak=100)
    first = run.random.getrandbits(24)
    tasks = [(range(at, min(at + 5, first + trials)),) for at in range(first, first + trials, 5)]
    both = [one for part in run.in_processes(suffered, tasks) for one in part]
    found = [one for one, _ in both]
    wrong = [said for one, broken in both for said in (*broken, *_misses(one))]
    worst = max(found, key=lambda one: one.wasted)
    rules, scenes = gates(run), scened(run)
    wrong += scenes.note.splitlines()[1:]
    note = "".join(f"{said}; " for said in [*([] if rules.met else [rules.note]), *wrong[:1]])
    note += f"dead {sum(one.healthy_dead for one in found)}, wasted at most {worst.wasted} attempts, "
    note += f"{worst.waiting} waited, drained in {worst.drained or 0:.0f} s, the other tenant "
    note += f"{_spans(worst.meanwhile)} (before {_spans(worst.calm)})"
    note += f"; {scenes.note.splitlines()[0]}" + (f"; {rules.note}" if rules.met else "")
    trials = len(found) + rules.trials + scenes.trials
    return Figures(trials=trials, met=not wrong and rules.met and scenes.met, note=note)


def scene(name: str, draw: int, part: float) -> Seen:
    """A scene on a server of its own."""
    with servers.running() as path:
        return play(f"unix://{path}", {**SCENES, **DOUBTFUL}[name].shortened(part), draw)


def _broken(name: str, one: Seen) -> str:
    """What a scene did that it must not; empty: nothing."""
    said = [f"{one.waiting} of {one.healthy} healthy messages wait"] if one.waiting else []
    said += [f"{one.died} died"] if one.died else []
    said += [f"{one.begun} attempts began in a pause"] if one.begun else []
    said += ["it never opened"] if SCENES[name].down and not one.opened else []
    return ", ".join(said)


def scened(run: Run) -> Figures:
    """Outages of other shapes, and what only looks like one; of the short ones a part."""
    part, draws = run.pick(short=(0.2, 1), whole=(1.0, 2), soak=(1.0, 20))
    names = [*SCENES, *(DOUBTFUL if run.scale != "short" else ())]
    first = run.random.getrandbits(24)
    tasks = [(name, draw, part) for name in names for draw in range(first, first + draws)]
    seen = list(zip(tasks, run.in_processes(scene, tasks), strict=True))
    wrong = [
        f"{name}, draw {draw}: {said}"
        for (name, draw, _), one in seen
        if name in SCENES and (said := _broken(name, one))
    ]
    doubtful = [
        f"{name}: {one.waiting} wait and {one.died} died of {one.healthy}"
        for (name, _, _), one in seen
        if name in DOUBTFUL
    ]
    note = "; ".join([f"{len(SCENES)} scenes: {len(wrong)} broken", *doubtful])
    return Figures(trials=len(seen), met=not wrong, note="\n".join((note, *wrong)))


def _misses(one: Outage) -> list[str]:
    """What an outage did that it must not."""
    said = [f"{one.healthy_dead} healthy messages died"] if one.healthy_dead else []
    said += [f"{one.wasted} attempts were wasted"] if one.wasted > WASTED else []
    said += ["who waited waits for ever"] if one.drained is None else []
    said += [f"it took {one.drained:.0f} s to drain"] if (one.drained or 0) > DRAINED else []
    said += ["a poison was spared"] if one.poisons_dead < one.poisons else []
    if one.calm is None or one.meanwhile is None or one.meanwhile.p50 > 2 * one.calm.p50:
        said.append("the other tenant waits")
    return said


def _spans(spread: Spread | None) -> str:
    return "was never done" if spread is None else f"p50 {spread.p50:.1f} s, p99 {spread.p99:.1f} s"


def take_turns(draws: Sequence[int], hand_outs: int) -> list[tuple[float, int, str]]:
    """On a server of its own: what `turns` returns, and what was wrong besides."""
    found: list[tuple[float, int, str]] = []
    with servers.running() as path, redis.Redis(unix_socket_path=path, socket_timeout=60) as client:
        for draw in draws:
            try:
                found.append((*turns(client, draw, hand_outs), ""))
            except AssertionError as error:
                found.append((0.0, 0, str(error)))
    return found


def fairness(run: Run) -> Figures:
    """Five loud keys and a quiet one."""
    trials = run.pick(short=2, whole=20, soak=200)
    first = run.random.getrandbits(24)
    tasks = [(range(at, min(at + 10, first + trials)), 1_000) for at in range(first, first + trials, 10)]
    found = [one for part in run.in_processes(take_turns, tasks) for one in part]
    apart, late = max(share for share, _, _ in found), max(waited for _, waited, _ in found)
    wrong = [said for _, _, said in found if said]
    note = f"shares differ by {apart:.1%} at most; the quiet one came {max(late, 0)} messages too late"
    note += f"; {len(wrong)} broken" + "".join(f": {said}" for said in wrong[:1])
    return Figures(trials=1_000 * trials, met=apart <= APART and late <= 0 and not wrong, note=note)


def fill(queue: Any, waiting: int, lanes: str) -> None:
    """So many that wait: without keys, of one key, or each of another one behind a message that is ready."""
    count = waiting + IN_ONE if lanes == "one lane" else 2 * waiting
    for first in range(0, count, 1_000):
        keys: dict[str, list[str | None]] = {
            "no lane": [None] * 1_000,
            "one lane": ["k"] * 1_000,
            "lanes of their own": [f"k{n // 2}" for n in range(first, first + 1_000)],
        }
        queue.send_many([Message("x", key=key) for key in keys[lanes]])


def prices(raw: Any, queues: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of Redis for a claim, an ack and a nack of each queue: the lower quartile."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        for name, queue in queues.items():
            for verb in ("ack", "nack"):
                begin = spent(raw)
                held = queue.claim(TAKEN)
                claimed = spent(raw)
                if verb == "ack":
                    queue.ack(held)
                else:
                    queue.nack(held, "no", delay="1h")
                found[name]["claim"].append(claimed - begin)
                found[name][verb].append(spent(raw) - claimed)
    return {
        name: {verb: sorted(times)[len(times) // 4] for verb, times in verbs.items()}
        for name, verbs in found.items()
    }


def bounded(run: Run) -> Figures:
    """Few that wait, and many, on one server: without keys, in one lane, and in as many lanes.

    Many messages fit into no cache of the processor, so each command on them takes longer, with keys or
    without. That is in the price of a plain queue as deep.
    """
    few, many = run.pick(short=(10_000, 40_000), whole=(10_000, 1_000_000))
    rules = {"no lane": None, "one lane": PerKey(limit=IN_ONE), "lanes of their own": PerKey(order=True)}
    rounds, times = run.pick(short=60, whole=300), dict[str, dict[str, float]]()
    for lanes, rule in rules.items():
        with (
            servers.running() as path,
            Broker(f"unix://{path}") as broker,
            redis.Redis(unix_socket_path=path) as raw,
        ):
            queues = {f"{size:,}": broker.queue(f"q{size}", per_key=rule) for size in (few, many)}
            for size, queue in zip((few, many), queues.values(), strict=True):
                fill(queue, size, lanes)
                run.done(size, few + many, lanes)
            small, large = prices(raw, queues, rounds).values()
        times[lanes] = {verb: large[verb] / small[verb] for verb in small}
    plain = {verb: max(by, 1.0) for verb, by in times["no lane"].items()}
    worst = max(by / plain[verb] for lanes in rules for verb, by in times[lanes].items())
    said = [
        f"{lanes}: " + ", ".join(f"{verb} {by:.2f}x" for verb, by in found.items())
        for lanes, found in times.items()
    ]
    note = (
        f"{many:,} that wait cost, beside a plain queue, at most {worst:.2f}x of {few:,}; {'; '.join(said)}"
    )
    return Figures(trials=2 * len(rules) * rounds, met=worst <= DEARER, note=note)


ROWS = (
    Row(
        "K1",
        "order: claims, acks, nacks, lapses, poison, redrives, undos, moves, purges in any order",
        "nobody overtakes who is blocked; one of a key at a time; a retry keeps its seat",
        order,
    ),
    Row(
        "K2",
        "limits: a rule turned on over a full queue, stale tokens, repeated calls",
        "never more of a key in work than the rule allows, none without a seat",
        exclusivity,
    ),
    Row(
        "K3",
        "scripts with keys cut off at any of their Redis calls",
        "one round of tend later nobody waits beside a free seat or with one, and no seat is nobody's",
        liveness,
    ),
    Row(
        "K5",
        "turns: five loud keys and a quiet one, claims of 1 to 30",
        "shares differ by ≤ 10 %; the quiet one waits for at most 4 of each and one batch; batches are full",
        fairness,
    ),
    Row(
        "K6",
        "what 40 % of the work needs is down for 30 minutes; poisons before and in it; bursts of bad ones, "
        "bad heads of keys, bad rows of batches, calls that hang, flapping, an operator; cut-off scripts",
        "no healthy message dies, none waits a minute after the burst or the repair, ≤ 230 attempts are "
        "wasted, the other tenant's median within 2x; a poison dies of its own; nobody is handed out of a "
        "closed lane",
        outages,
    ),
    Row(
        "K7",
        "keys with a rate, alone and beside each mode; idle minutes, releases, lapses, retries, clock steps",
        "in no window more of a key than its rate and one, over all clients; one more a step of the clock; "
        "nobody waits past his slot",
        rates,
    ),
    Row(
        "K8",
        "1,000,000 that wait, in one lane and in as many lanes, beside 10,000",
        "a claim, an ack and a nack cost at most 1.3x, beside a plain queue as deep",
        bounded,
    ),
)
