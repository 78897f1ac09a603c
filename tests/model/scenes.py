"""K6: what an outage looks like, and what only looks like one, played on the real scripts in virtual time.

A burst of bad messages is no outage; neither are bad ones all the time. Calls may hang, a service flap, an
operator act. Of each it is counted which healthy messages wait a minute after it is over.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from rq_dlq import Breaker, PerKey, RedeliveryPolicy
from rq_dlq.policy.outage import WORK, OutagePlan, SimulatedMessage
from rq_dlq.testing.outage import DEPENDENCY, MINUTE, Fleet, staged

FEW = RedeliveryPolicy(max_redeliveries=3)
ORDER = PerKey(order=True)
FOR_EVER = 24 * 3_600_000  # milliseconds
KEYS = 20  # of which half have bad heads
TEN = 600.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What happens; times in seconds.

    Attributes:
        rate: messages a second that need the service.
        length: how long they are sent.
        over: when the burst or the outage is over.
        bad: how many always fail, of those that are sent all the time.
        burst: how many more of these come at once, at `begins`.
        behind: how many more of these come at `over`, right behind a healthy one.
        down: when the service fails; the calls then take `takes`.
        hangs: when calls that begin hang, and until when; then they fail.
        quiet: when a pause lets nobody begin.
        fails: how many of the calls of healthy messages fail, while messages are sent.
        heads: half of the keys have a bad head; another key is busy and good.
        batch: how many a worker claims; the bad ones of a batch are settled in one call, first.
        acts: what an operator does, and when.
    """

    rate: float = 20
    length: float = 300
    over: float = 60
    begins: float = 60
    bad: float = 0
    burst: int = 0
    behind: int = 0
    down: Sequence[tuple[float, float]] = ()
    hangs: Sequence[tuple[float, float, float]] = ()
    quiet: Sequence[tuple[float, float]] = ()
    takes: float = WORK
    fails: float = 0
    heads: bool = False
    batch: int = 1
    workers: int = 16
    policy: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    acts: Sequence[tuple[float, Callable[[Any], object]]] = ()

    def shortened(self, part: float) -> Scene:
        """The scene with a part of its length, if it is long and nothing happens at set times."""
        if part == 1 or self.down or self.over < TEN:
            return self
        return replace(self, length=self.length * part, over=self.over * part)


@dataclass(frozen=True)
class Seen:
    """What came of it.

    Attributes:
        waiting: healthy messages that were sent before it was over, and neither done a minute after nor hang.
        died: healthy messages that died.
        healthy: how many there were.
        bad, bad_dead: those that always fail.
        opened: how often a breaker opened.
        begun: attempts that began in a pause.
    """

    waiting: int
    died: int
    healthy: int
    bad: int
    bad_dead: int
    opened: int
    begun: int
    attempts: int


class Stage(Fleet):
    """A fleet that plays a scene."""

    def __init__(self, scene: Scene, *given: Any) -> None:
        self.per_key = ORDER if scene.heads else None
        super().__init__(*given)
        self.scene, self.batch, self.lease = scene, scene.batch, FOR_EVER
        self._drawn, self._sent, self._begun = random.Random(given[-1]), 0, 0
        self._stuck = set[int]()  # whose calls hang for longer
        for second in range(int(scene.length)):
            self._at(second, self._send)
        for time, act in scene.acts:
            self._at(time, partial(act, self.queue.dependency(DEPENDENCY)))

    def moments(self) -> Iterator[None]:
        """Until all is done, or ten minutes after the end."""
        last = max(self.scene.length, self.scene.over) + 10 * MINUTE
        yield from self.until(last, enough=lambda: self.now > self.scene.over + MINUTE and not self._left)

    def answer(self, message: SimulatedMessage) -> tuple[float, bool]:
        scene = self.scene
        if message.poison:
            return WORK, False
        self._begun += any(first <= self.now < last for first, last in scene.quiet)
        for first, last, ends in scene.hangs:
            if first <= self.now < last:
                self._stuck |= {id(message)} if ends > scene.over + MINUTE else set()
                return ends - self.now, False
        for first, last in scene.down:
            if first <= self.now < last:
                return scene.takes, False
        fails = self.now < scene.length and self._drawn.random() < scene.fails
        return WORK, not fails

    def _send(self) -> None:
        scene, now = self.scene, self.now
        count = round((now + 1) * scene.rate) - round(now * scene.rate)
        sent = {f"m{self._sent + n}": SimulatedMessage(now, needs=True) for n in range(count)}
        self._sent += count
        for message in sent.values():
            message.poison = self._drawn.random() < scene.bad
            message.key = (
                f"k{self._drawn.randrange(KEYS)}" if scene.heads and self._drawn.random() < 0.5 else "busy"
            )
        order = [*sent]
        if now == scene.begins:
            burst = {
                f"bad{n}": SimulatedMessage(now, needs=True, poison=True, key="busy")
                for n in range(scene.burst)
            }
            heads = {
                f"head{n}": SimulatedMessage(now, needs=True, poison=True, key=f"k{n}")
                for n in range(KEYS // 2)
            }
            burst |= heads if scene.heads else {}
            order, sent = [*burst, *order], sent | burst
        if now == scene.over:
            behind = {
                f"behind{n}": SimulatedMessage(now, needs=True, poison=True, key="busy")
                for n in range(scene.behind)
            }
            order, sent = [*order, *behind], sent | behind
        self.send(sent, order)

    def seen(self) -> Seen:
        """What came of it."""
        healthy = [one for one in self.messages.values() if not one.poison]
        bad = [one for one in self.messages.values() if one.poison]
        late, over = self.scene.over + MINUTE, self.scene.over
        return Seen(
            waiting=sum(
                one.sent <= over and (one.acked or one.died or inf) > late and id(one) not in self._stuck
                for one in healthy
            ),
            died=sum(one.died is not None for one in healthy),
            healthy=len(healthy),
            bad=len(bad),
            bad_dead=sum(one.died is not None for one in bad),
            opened=sum(note.did == "opened" for note in self._broker.audit(limit=1_000)),
            begun=self._begun,
            attempts=sum(len(one.failed) + (one.acked is not None) for one in self.messages.values()),
        )


def play(url: str, scene: Scene, draw: int, *, breaker: bool = True) -> Seen:
    """Play a scene."""
    plan = OutagePlan(breaker=Breaker() if breaker else None, policy=scene.policy, workers=scene.workers)
    with staged(url, plan, draw, partial(Stage, scene)) as stage:
        for _ in stage.moments():
            pass
        return stage.seen()


SCENES: Mapping[str, Scene] = {
    "25 bad at once amid 5 a second": Scene(rate=5, length=150, burst=25),
    "25 bad at once amid 50 a second": Scene(rate=50, length=130, burst=25),
    "25 bad at once, then nothing but one a minute": Scene(rate=1 / 60, length=600, burst=25),
    "a good one between bad heads and a bad newcomer": Scene(
        rate=1 / 60, length=91, over=90, burst=100, behind=1
    ),
    "20 % bad for ten minutes": Scene(rate=5, length=TEN, over=TEN, bad=0.2),
    "bad heads in half of the ordered keys": Scene(rate=10, length=150, heads=True, policy=FEW),
    "20 bad rows in each nack of a batch": Scene(rate=100, length=60, over=60, bad=0.2, batch=100, workers=4),
    "calls hang while it is down": Scene(
        rate=5, length=400, down=[(60, 65)], hangs=[(65, 300, 300)], over=300
    ),
    "calls hang for ever while it is down": Scene(
        rate=3, length=400, down=[(60, 68)], hangs=[(68, 75, 3_000)], over=330
    ),
    "calls hang while it comes back": Scene(
        rate=5, length=400, down=[(60, 120)], hangs=[(122, 250, 250)], over=250, workers=50
    ),
    "some hang for ever while it comes back": Scene(
        rate=3, length=300, down=[(60, 120)], hangs=[(122, 122.3, 3_000)], over=200, workers=60
    ),
    "calls hang for 20 s and time out": Scene(
        rate=2, length=500, down=[(60, 480)], takes=20, over=480, workers=8, policy=FEW
    ),
    "flapping, 20 s each": Scene(
        rate=5, length=400, down=[(first, first + 20) for first in range(60, 360, 40)], over=360
    ),
    "an operator pauses, probes, resumes": Scene(
        rate=5, length=500, down=[(60, 360)], over=400,
        acts=[
            (100, lambda one: one.pause(until="1m")), (130, lambda one: one.probe()),
            (140, lambda one: one.resume()), (200, lambda one: one.pause()), (210, lambda one: one.probe()),
            (340, lambda one: one.resume()), (350, lambda one: one.pause()), (365, lambda one: one.probe()),
            (400, lambda one: one.resume()),
        ],
        quiet=[(101, 130), (131, 140), (201, 210), (211, 340), (366, 400)],
    ),
    "an outage with 5 % bad": Scene(rate=3, length=450, down=[(60, 400)], over=400, bad=0.05),
}  # fmt: skip
"""Of each, no healthy message waits a minute after it is over."""
DOUBTFUL: Mapping[str, Scene] = {
    "60 % bad for ten minutes": Scene(rate=5, length=TEN, over=TEN, bad=0.6),
    "half of the calls fail": Scene(rate=5, length=TEN, over=TEN, fails=0.5, policy=FEW),
    "70 % of the calls fail": Scene(rate=5, length=TEN, over=TEN, fails=0.7, policy=FEW),
}
"""What cannot be told from an outage: what comes of it is said."""
