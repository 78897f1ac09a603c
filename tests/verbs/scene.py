"""Two queues with messages in every state, as a client of either colour sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rq_dlq import IndividualDeadLetterStrategy, RedeliveryPolicy, ResultUnavailable
from rq_dlq.core.batches import batches
from rq_dlq.core.jobs import jobs
from rq_dlq.core.jobs.stage import Stage
from rq_dlq.core.sending.restore import restore
from rq_dlq.core.steps.call import Call
from rq_dlq.values.message import MessageRow
from tests.behaviour.helpers import bury
from tests.behaviour.stepping import alone
from tests.conftest import Clock

BATCH, JOB, COMMITTED = "batch", "job", "committed"
DAY = 86_400_000  # milliseconds
POLICY = RedeliveryPolicy(delays=["1h"], max_redeliveries=None)
KEPT = IndividualDeadLetterStrategy(expiration="1h")


@dataclass
class Scene:
    """What a verb can be said of.

    Attributes:
        queue: something of it is in every state, and something is due, over, lapsed or kept for long enough.
        other: the queue that messages are moved to.
        held: three deliveries, each of a claim of its own.
        tokens: of a batch of four messages.
        staged: how many messages each list holds that a task of JOB wrote; it is not committed.
        committed: a list of another job, which is committed and not moved.
    """

    broker: Any
    queue: Any
    other: Any
    held: list[Any] = field(default_factory=list[Any])
    tokens: list[str] = field(default_factory=list[str])
    staged: dict[str, int] = field(default_factory=dict[str, int])
    committed: str = ""

    @property
    def keys(self) -> Any:
        """Of the queue."""
        return self.queue._core.keys

    async def run(self, steps: Any) -> Any:
        """Run steps, or a single call."""
        return await self.broker._run(alone(steps) if isinstance(steps, Call) else steps)

    async def session(self, *sent: str) -> None:
        """A session that acks what it claims, and sends these."""
        async with self.queue.session() as session:
            assert await session.claim()
            for body in sent:
                await session.send(self.queue, body)

    async def send_limited(self, body: str) -> Any:
        """Send as to a queue that was seen to have a `max_length`."""
        self.queue._core.limited = True
        return await self.queue.send(body)

    async def gather(self, *children: str, cancels: bool = False) -> None:
        """A gather with these children, which are acked, or cancelled."""
        target = self.queue if cancels else self.other  # a cancel is told each queue by itself
        async with self.broker.gather(then=(target, "then")) as gather:
            for child in children:
                await gather.send(self.queue, child, priority=9)
            if cancels:
                await gather.cancel()
        if children and not cancels:
            await self.queue.ack(await self.queue.claim(len(children)))

    async def redrive(self, verb: str) -> None:
        """A redrive that is left to others, and a verb for it."""
        job = await self.queue.dlq.redrive(all=True, detach=True)
        await getattr(job, verb)()

    async def consume(self) -> None:
        """A loop: its second step acks the first message, and claims the next."""
        deliveries = self.queue.consume(1)
        await (await anext(deliveries)).ack()
        await anext(deliveries)
        await deliveries.aclose()

    async def result(self) -> None:
        """Ask for the result of a message that has none."""
        with pytest.raises(ResultUnavailable):
            await self.queue.result("r1")

    async def cancel(self) -> str:
        """Cancel the next message."""
        (first,) = await self.queue.peek(1)
        return str(await self.queue.cancel(first.id))

    async def limit(self) -> None:
        """Give a key a limit of its own, where the rule is a limit."""
        await self.queue._broker.policies.set(self.queue.name, per_key="limit 2", pinned=True)
        await self.queue.key("k").limit(8)

    async def probe(self) -> bool:
        """Let one message in that waits for a dependency."""
        await self.queue.dependency("d").pause()
        await self.queue.send_many(["parked", "parked"], dependency="d", priority=9)
        await self.queue.claim()
        return bool(await self.queue.dependency("d").probe())

    async def mute(self) -> None:
        """Mute the only group."""
        (group,) = await self.queue.dlq.groups()
        await self.queue.dlq.mute(group=group)

    async def restore(self) -> list[str]:
        """Put two dead letters back that were exported."""
        state = b"dead/poison - 1000 1 1 0 0 0 0 0 group=abc"
        record = (1000 << 12).to_bytes(7, "big") + self.queue._core.codec.packer(4, {})("back")
        rows = [MessageRow(f"back{n}", record, state, b"") for n in range(2)]
        return await self.run(restore(self.queue._core, rows))  # type: ignore[no-any-return]

    async def stage(self, job: str) -> dict[str, int]:
        """Write two messages of a job."""
        pack, stage = self.queue._core.codec.packer(4, {}), Stage(self.keys, job, "task")
        await self.run(stage.add([f"{job}1", pack("staged"), f"{job}2", pack("staged")]))
        return stage.counts

    async def commit(self, job: str, staged: dict[str, int]) -> Any:
        """Commit a job."""
        return await self.run(jobs.commit([self.queue._core], job, {self.keys.family: staged}))


async def set_up(broker: Any, clock: Clock, family: str = "a", other: str = "b") -> Scene:
    """Fill two queues of these names."""
    options = {"redelivery": POLICY, "dead_letter": KEPT, "lease": "1d"}
    scene = Scene(broker, broker.queue(family, **options), broker.queue(other, **options))
    queue = scene.queue
    await scene.other.send("there")
    await bury(queue, ["kept for long enough"])
    clock.advance("59m")
    await bury(queue, ["dead"])
    await queue.send("expired")
    await queue.select(all=True).expire()
    await queue.send_many(["held"] * 3)
    scene.held = [delivery for _ in range(3) for delivery in await queue.claim()]
    await queue.send_many(["batch"] * 4)
    claim = batches.claim_batch(queue._core, BATCH, limit=4, lease=DAY)
    scene.tokens = (await scene.run(claim)).tokens
    await queue.send("lapsed")
    await queue.claim(lease="1m")
    scene.staged = await scene.stage(JOB)
    (scene.committed,) = staged = await scene.stage(COMMITTED)
    await scene.commit(COMMITTED, staged)
    await queue.send("late", delay="1h")
    await queue.send("due", delay="1m")
    await queue.send("mortal", ttl="1m")
    await queue.send_many(["ready"] * 2)
    clock.advance("1m")
    return scene
