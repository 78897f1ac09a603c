"""How long Redis stands still while the lanes of 0.1.0 get their new numbers, step by step.

$ python -m tests.benchmarks.renumber           a million blocked messages of 1,000 keys
$ python -m tests.benchmarks.renumber 20000     fewer
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rq_dlq
from rq_dlq import Message, PerKey
from rq_dlq.core.keyed import calls
from rq_dlq.core.keyed.renumber import STEP
from rq_dlq.core.steps.replies import Word
from tests.format.old_lanes import BLOCKED, as_old
from tests.servers import Server

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys

MESSAGES, KEYS = 1_000_000, 1_000
COPY = """
for n = tonumber(ARGV[4]), tonumber(ARGV[5]) do
  redis.call('HSET', KEYS[1], 'c' .. n, ARGV[1])
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3] .. 'c' .. n)
end
"""
"""Adds copies of a blocked message: its record, the score of its row, and the row without the id."""


def fill(queue: rq_dlq.Queue[Any], raw: Any, number: int) -> QueueKeys:
    """A queue of 0.1.0 whose messages wait for the first of each key, which is in work."""
    queue.send_many([Message(n, key=f"key {n % KEYS}") for n in range(2 * KEYS)])
    queue.claim(KEYS)
    keys, copies = queue._core.keys, number // KEYS - 1
    as_old(raw, keys)
    records = raw.hgetall(keys["messages"])
    blocked = raw.zrangebyscore(keys["scheduled"], BLOCKED, "+inf", withscores=True)
    for n, (row, score) in enumerate(blocked):
        message_id = next(one for one in (row[-size:] for size in range(1, len(row))) if one in records)
        first = (records[message_id], int(score), row.removesuffix(message_id))
        raw.eval(COPY, 2, keys["messages"], keys["scheduled"], *first, n * copies, (n + 1) * copies - 1)
    return keys


def renumber(broker: rq_dlq.Broker, raw: Any, keys: QueueKeys) -> list[float]:
    """How much of the server's processor each step took, milliseconds."""
    took = list[float]()
    place: bytes | Word = b""
    while not isinstance(place, Word):
        before = used(raw)
        place = broker._run(broker._step(calls.renumber(keys, place, limit=STEP)))
        took.append(1000 * (used(raw) - before))
    return sorted(took)


def used(raw: Any) -> float:
    """The seconds that the server has used of a processor; the reading itself takes 0.1 ms."""
    cpu = raw.info("cpu")
    return float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"])


def main(number: int = MESSAGES) -> None:
    """Print what the conversion takes."""
    with (
        tempfile.TemporaryDirectory(prefix="rq-dlq-") as folder,
        Server(Path(folder)) as server,
        rq_dlq.Broker(server.url) as broker,
        server.client() as raw,
    ):
        keys = fill(broker.queue("a", per_key=PerKey(order=True), lease="1h"), raw, number)
        began = time.monotonic()
        took = renumber(broker, raw, keys)
        whole = time.monotonic() - began
    print(
        f"{number:,} blocked messages of {KEYS:,} keys: {len(took):,} steps, "
        f"median {statistics.median(took):.1f} ms of Redis, p99 {took[len(took) * 99 // 100]:.1f} ms, "
        f"at most {took[-1]:.1f} ms; {sum(took) / 1000:.1f} s of Redis, {whole:.0f} s in all"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
