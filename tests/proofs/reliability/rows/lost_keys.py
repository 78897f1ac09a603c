"""T40: each index of a queue is deleted, or restored in part, under messages in every state."""

from __future__ import annotations

from typing import Any

import rq_dlq
from rq_dlq import RedeliveryPolicy
from tests.proofs.reliability.findings import audited, wrong
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server

INDEXES = ("ready", "scheduled", "dead", "expired", "leases", "claims", "groups")
PARTS = {"deleted": 1, "restored in part": 2}  # each how manieth row is lost
AT_ONCE = RedeliveryPolicy(delays=[0], max_redeliveries=3)


def fill(broker: rq_dlq.Broker, name: str, messages: int) -> rq_dlq.Queue[int]:
    """A queue with so many messages in each state."""
    queue = broker.queue(name, redelivery=AT_ONCE)
    queue.send_many(range(messages), ttl="1ms")
    while queue.stats().expired < messages:
        queue.maintain()
    for settle in (lambda held: queue.poison(held, "no"), list):
        queue.send_many(range(messages))
        for _ in range(messages):
            settle(queue.claim(1))
    queue.send_many(range(messages), delay="1h")
    queue.send_many(range(messages))
    return queue


def lose(raw: Any, key: str, every: int) -> None:
    """A key without each `every`-th of its rows, or of its claims."""
    if raw.type(key) == b"hash":
        tokens = [name for name in sorted(raw.hkeys(key)) if not name.endswith(b":held")]
        raw.hdel(key, *[field for token in tokens[::every] for field in (token, token + b":held")])
    else:
        raw.zrem(key, *raw.zrange(key, 0, -1)[::every])


def told(queue: rq_dlq.Queue[Any], raw: Any, index: str) -> int:
    """How many messages are stuck though nobody says so."""
    keys = queue._core.keys
    rows = sum(raw.zcard(keys[name]) for name in ("ready", "scheduled", "dead", "expired"))
    held = [raw.hget(keys["claims"], token + b":held") for token in raw.zrange(keys["leases"], 0, -1)]
    stuck = raw.hlen(keys["messages"]) - rows - sum(int(count or 0) for count in held)
    stats = queue.stats()
    names = [name.decode() for name in raw.hkeys(keys["messages"])]
    said = sum(queue.explain(name).place == "orphaned" for name in names)
    expected = 0 if index == "claims" else stuck  # where their lease goes on, they are leased
    return int(abs(stuck - stats.orphaned) + max(0, expected - said))


def run(run: Run) -> Figures:
    """Lose each, look, and maintain."""
    messages = run.pick(short=10, whole=200)
    silent, left, trials = 0, 0, 0
    damage: list[str] = []
    with Server(run.directory) as server, server.client() as raw, rq_dlq.Broker(server.url) as broker:
        for index in INDEXES:
            for part, every in PARTS.items():
                queue = fill(broker, f"{index}-{every}", messages)
                before = queue.stats()
                lose(raw, queue._core.keys[index], every)
                silent += told(queue, raw, index)
                queue.maintain()
                after = queue.stats()
                places = ("ready", "scheduled", "leased", "dead", "expired")
                left += sum(abs(getattr(before, name) - getattr(after, name)) for name in places)
                damage += [f"{index} {part}: {said}" for said in audited(raw, queue.name)]
                trials += 1
    found = wrong({"stuck in silence": silent, "not back where they were": left}) + damage
    note = "; ".join([*found, f"{len(INDEXES)} indexes, {messages} messages in each of five states"])
    return Figures(trials=trials, met=not found, note=note)


ROWS = (
    Row(
        "T40",
        "each index of a queue deleted, or restored in part, under messages in every state",
        "maintenance rebuilds it; until then stats and explain say so: 0 stuck in silence",
        run,
    ),
)
