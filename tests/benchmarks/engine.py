"""The engine beside the bare scripts of its own layout, in one run.

The bare scripts (`layouts/per_claim.*.lua`) keep only the fence, order and lapses. They are called over one
connection without redis-py's command layer, and by `redis.Redis`, as a program would. The engine is used as
people use it: `send_many`, `claim`, `ack`. All take turns on one core with the server. Only ratios of one run
count; on a busy machine, those of the CPU that client and server use.

    python -m tests.benchmarks.engine --messages 50000 --rounds 5
    python -m tests.benchmarks.engine --clock cpu
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from statistics import median, quantiles
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from rq_dlq import Broker, RedeliveryPolicy
from rq_dlq.worker import Worker
from tests import servers
from tests.benchmarks import layouts
from tests.servers.counts import microseconds

BODY = {"data": "x" * (layouts.PAYLOAD - len('{"data":""}'))}  # 100 bytes of JSON
PARTS = {1: 20, 10: 5, 100: 1}  # batch: the part of the messages that is drained so
FEW, MANY = 10_000, 1_000_000  # pending, for the cost of a call
LOOP = "consume, 1"  # the bare scripts beside it: claim + ack, 1
EACH = "claim 100, ack each by a call"
WORKER = "worker, ack_each"  # the bare scripts beside it: the same
CALLS = 150  # of each verb, for the cost of a call; all together they take less than FEW
PICK_UPS = 1_000

Rates = dict[str, float]
Clock = Callable[[], float]


def clock_of(name: str, path: str) -> Clock:
    """What counts seconds: those that pass, or those of CPU of this process and the server."""
    if name == "wall":
        return time.perf_counter
    client = layouts.Client(path)
    return lambda: time.process_time() + client.cpu()


def timed(clock: Clock, run: Any, count: int) -> float:
    """Messages a second."""
    began = clock()
    run()
    return count / (clock() - began)


def bare(client: layouts.Client, messages: int, clock: Clock) -> Rates:
    """Rates of the bare scripts, called by this client."""
    client.command("FLUSHALL")
    (layout,) = layouts.Layout.find(layouts.SCRIPTS, ["per_claim"])
    queue = layouts.Queue(client, layout)
    items = layouts.items_of(messages)
    rates = {"send many": timed(clock, lambda: layouts.fill(queue, items), messages)}
    for batch, part in PARTS.items():
        layouts.fill(queue, layouts.items_of(messages // part))
        count = messages // part // batch * batch
        drain = timed(clock, lambda b=batch, c=count: layouts.drain(queue, c, b, str(b)), count)
        rates[f"claim + ack, {batch}"] = drain
    each = messages // 1_000 * 100
    layouts.fill(queue, layouts.items_of(each))
    rates[EACH] = timed(clock, lambda: layouts.drain(queue, each, 100, "each", each=True), each)
    ones = layouts.items_of(messages // 20)[1::2]
    draw = random.Random(2)
    rates["send one"] = timed(
        clock, lambda: [queue.send([draw.randbytes(9).hex().encode()[:12], body]) for body in ones], len(ones)
    )
    client.close()
    return rates


def engine(path: str, messages: int, clock: Clock) -> Rates:
    """Rates of the engine."""
    with redis.Redis(unix_socket_path=path) as raw:
        raw.flushall()
    with Broker(f"unix://{path}") as broker:
        queue = broker.queue("bench")
        queue.stats()
        rates = {"send many": timed(clock, lambda: queue.send_many(BODY for _ in range(messages)), messages)}

        def drain(batch: int, count: int) -> None:
            for _ in range(count // batch):
                queue.ack(queue.claim(batch))

        for batch, part in PARTS.items():
            queue.send_many(BODY for _ in range(messages // part))
            count = messages // part // batch * batch
            rates[f"claim + ack, {batch}"] = timed(clock, lambda b=batch, c=count: drain(b, c), count)

        each = messages // 1_000 * 100
        queue.send_many(BODY for _ in range(each + 100))

        def ack_each() -> None:
            for _ in range(each // 100):
                for delivery in queue.claim(100):
                    delivery.ack()

        @queue.handler(ack_each=True)
        def handle(body: object) -> None:
            del body

        rates[EACH] = timed(clock, ack_each, each)
        Worker(broker, until="empty").run()  # the first one of a process takes long to begin
        queue.send_many(BODY for _ in range(each))
        rates[WORKER] = timed(clock, Worker(broker, until="empty").run, each)
        queue.send_many(BODY for _ in range(messages // PARTS[1]))

        def loop(count: int) -> None:
            for delivery in islice(queue.consume(), count):
                with delivery:
                    pass

        ones = messages // PARTS[1]
        rates[LOOP] = timed(clock, lambda: loop(ones), ones)
        rates["send one"] = timed(clock, lambda: [queue.send(BODY) for _ in range(ones)], ones)
    return rates


def compare(path: str, messages: int, rounds: int, clock: Clock) -> Table:
    """The engine and the bare scripts, turn and turn about."""
    seen: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    of_one: list[float] = []
    for _ in range(rounds):
        bases = [bare(client(path), messages, clock) for client in (layouts.Client, layouts.UsualClient)]
        full = engine(path, messages, clock)
        for name in full:
            base = {LOOP: "claim + ack, 1", WORKER: EACH}.get(name, name)
            seen[name].append((*(rates[base] for rates in bases), full[name]))
        of_one.append(full[LOOP] / full["claim + ack, 1"])
    heads = ("bare scripts /s", "by redis-py /s", "engine /s", "engine : bare", "engine : by redis-py")
    table = Table("", *heads, title="Rates")
    for name, rounds_of in seen.items():
        rates = [f"{median(side):,.0f}" for side in zip(*rounds_of, strict=True)]
        ratios = [f"{median(one[-1] / one[base] for one in rounds_of):.2f}" for base in range(2)]
        table.add_row(name, *rates, *ratios)
    table.caption = f"{LOOP} : claim + ack, 1 = {median(of_one):.2f}"
    return table


def consume(path: str, latencies: Any) -> None:
    """Another process: claims one at a time, and notes how long after its sending each came."""
    with Broker(f"unix://{path}") as broker:
        queue = broker.queue("idle")
        while True:
            for delivery in queue.claim(wait="1s"):
                if delivery.body is None:
                    delivery.ack()
                    return
                latencies.put(time.perf_counter() - delivery.body)
                delivery.ack()


def pick_up(path: str) -> Table:
    """How soon a waiting client has a message that is sent to an idle queue."""
    context = multiprocessing.get_context("spawn")
    latencies: Any = context.Queue()
    with Broker(f"unix://{path}") as broker, redis.Redis(unix_socket_path=path) as raw:
        queue = broker.queue("idle")
        process = context.Process(target=consume, args=(path, latencies))
        process.start()
        seen = []
        for _ in range(PICK_UPS):
            servers.wait_until(lambda: raw.info("clients")["blocked_clients"] == 1)
            queue.send(time.perf_counter())
            seen.append(latencies.get() * 1000)
        queue.send(None)
        process.join()
    table = Table("", "p50 ms", "p99 ms", title=f"Idle pick-up, {PICK_UPS} messages, another process")
    table.add_row("send to claimed", f"{median(seen):.2f}", f"{quantiles(seen, n=100)[98]:.2f}")
    return table


def weigh(path: str) -> Table:
    """Bytes of a pending message, and what is left when all are gone."""
    count = 100_000
    with Broker(f"unix://{path}") as broker, redis.Redis(unix_socket_path=path) as raw:
        raw.flushall()
        queue = broker.queue("bench")
        queue.stats()
        empty = settled_memory(raw)
        queue.send_many(BODY for _ in range(count))
        pending = settled_memory(raw) - empty
        while deliveries := queue.claim(1_000):
            queue.ack(deliveries)
        left = {key.decode() for key in raw.keys()}  # noqa: SIM118 - a client is no dict
    table = Table("", "", title=f"Memory, {count:,} messages with a body of {layouts.PAYLOAD} bytes")
    table.add_row("bytes for a pending message", f"{pending / count:.0f}")
    table.add_row("keys left when all are acked", ", ".join(sorted(left)))
    return table


def settled_memory(raw: Any) -> int:
    """Bytes of data, once tables have stopped growing."""
    seen, before = 0, -1
    while seen != before:
        time.sleep(0.25)
        info = raw.info("memory")
        before, seen = seen, info["used_memory"] - info["mem_clients_normal"]
    return seen


def cost(raw: Any, queue: Any) -> Rates:
    """Microseconds of Redis for one message of each verb, ten at a time."""

    def measured(run: Any) -> float:
        raw.config_resetstat()
        for _ in range(CALLS):
            run()
        return microseconds(raw) / CALLS / 10

    batches: list[Any] = []
    costs = {"claim": measured(lambda: batches.append(queue.claim(10)))}
    costs["ack"] = measured(lambda: queue.ack(batches.pop()))
    batches = [queue.claim(10) for _ in range(3 * CALLS)]
    costs["nack"] = measured(lambda: queue.nack(batches.pop(), ValueError("x")))
    costs["poison"] = measured(lambda: queue.poison(batches.pop(), ValueError("x")))
    costs["release"] = measured(lambda: queue.release(batches.pop()))
    ids = [letter.id for letter in queue.dlq.browse(limit=10 * CALLS)]
    pages = [ids[i : i + 10] for i in range(0, len(ids), 10)]
    costs["redrive, with browse"] = measured(lambda: queue.dlq.redrive(ids=pages.pop()))
    return costs


def scale(path: str) -> Table:
    """The cost of a call with few and with many messages pending."""
    costs = []
    for pending in (FEW, MANY):
        with Broker(f"unix://{path}") as broker, redis.Redis(unix_socket_path=path) as raw:
            raw.flushall()
            queue = broker.queue("bench", redelivery=RedeliveryPolicy(initial_delay="1h", max_delay="2h"))
            queue.send_many(BODY for _ in range(pending))
            costs.append(cost(raw, queue))
            raw.flushall()
    table = Table(
        "Redis µs a message", f"{FEW:,} pending", f"{MANY:,} pending", "ratio", title="Cost, ten at a time"
    )
    for name, few in costs[0].items():
        table.add_row(name, f"{few:.1f}", f"{costs[1][name]:.1f}", f"{costs[1][name] / few:.2f}")
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print what was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="what /s is of")
    parser.add_argument("--server", help="a redis-server; by default the one on PATH")
    parser.add_argument("--rates", action="store_true", help="only the rates")
    parser.add_argument("--unpinned", action="store_true", help="let client and server use all cores")
    chosen = parser.parse_args(arguments)
    console = Console()
    if not chosen.unpinned and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the server inherits it
    with tempfile.TemporaryDirectory(), servers.running(program=chosen.server) as path:
        with redis.Redis(unix_socket_path=path) as raw:
            version = raw.info("server")["redis_version"]
        where = "all cores" if chosen.unpinned else "server and client on one core"
        console.print(f"$ python -m {' '.join([__spec__.name, *sys.argv[1:]])}")
        console.print(f"Redis {version}, Python {sys.version.split()[0]}, {where}")
        console.print(compare(path, chosen.messages, chosen.rounds, clock_of(chosen.clock, path)))
        for other in () if chosen.rates else (pick_up, weigh, scale):
            console.print(other(path))


if __name__ == "__main__":
    main()
