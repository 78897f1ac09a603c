"""Scenarios beside JetStream: what the consumer of a stream does, and that of a queue with its settings."""

from __future__ import annotations

import time

from tests.proofs.live_brokers.driver import Consumer, DriverError, Side
from tests.proofs.live_brokers.facts import Facts, Waits, better, differs
from tests.proofs.live_brokers.scenario import Scenarios, bodies, counts, places, waits

ALL = Scenarios()
KEPT = better("there a spent message stays in the stream, unseen; here it is a dead letter with its history")
PATIENT = {"ack_wait": 10, "max_deliver": 5}


@ALL.add("AckWait 0.5, MaxDeliver 3, the consumer is silent", ends_in=KEPT)
def silence(side: Side) -> Facts:
    consumer = side.consumer("silence", jetstream={"ack_wait": 0.5, "max_deliver": 3})
    side.send("silence", "silence")
    seen = [*consumer.rest(2)]
    return {"counts": counts(seen), "waits": waits(seen), "ends_in": places(side.find("silence"))}


@ALL.add(
    "BackOff 0.3, 0.8, 1.3, the consumer is silent",
    waits=differs(
        "there the list takes the place of AckWait; here silence is a failure when the lease is over, and "
        "the wait comes after that"
    ),
    ends_in=KEPT,
)
def backoff_silence(side: Side) -> Facts:
    settings = {"ack_wait": 0.3, "max_deliver": 4, "backoff": [0.3, 0.8, 1.3]}
    consumer = side.consumer("backoff", jetstream=settings)
    side.send("backoff", "backoff silence")
    seen = [*consumer.rest(3)]
    return {"counts": counts(seen), "waits": waits(seen), "ends_in": places(side.find("backoff silence"))}


@ALL.add(
    "the same list, the consumer says nak",
    waits=better("the list is the policy of every failure; there a plain nak has no delay"),
    ends_in=KEPT,
)
def backoff_nak(side: Side) -> Facts:
    settings = {"ack_wait": 10, "max_deliver": 4, "backoff": [0.3, 0.8, 1.3]}
    side.send("nak", "backoff nak")
    consumer = side.consumer("nak", jetstream=settings)
    seen = []
    for delivery in consumer.rest(3):
        seen.append(delivery)
        consumer.do("nak", body=delivery.body)
    return {"counts": counts(seen), "waits": waits(seen), "ends_in": places(side.find("backoff nak"))}


@ALL.add("nak with delays 0.3, 1, 0.1")
def nak_delays(side: Side) -> Facts:
    side.send("delays", "delays")
    consumer = side.consumer("delays", jetstream=PATIENT)
    seen = consumer.take(1)
    for delay in (0.3, 1, 0.1):
        consumer.do("nak", body="delays", delay=delay)
        seen += consumer.take(1)
    consumer.do("ack", body="delays")
    return {"counts": counts(seen), "waits": waits(seen), "left": len(side.find("delays", within=0.5))}


@ALL.add("term", ends_in=better("there it is gone, and an advisory says so; here it is a dead letter"))
def term(side: Side) -> Facts:
    side.send("term", "term")
    consumer = side.consumer("term", jetstream=PATIENT)
    seen = consumer.take(1)
    consumer.do("term", body="term")
    more = consumer.take(1, 1)
    return {"deliveries": len(seen) + len(more), "ends_in": places(side.find("term"))}


@ALL.add("in progress 4 times, AckWait 2: when another consumer gets it")
def in_progress(side: Side) -> Facts:
    side.send("progress", "progress")
    settings = {"ack_wait": 2, "max_deliver": 5}
    slow, other = (side.consumer("progress", jetstream=settings) for _ in range(2))
    seen, early = slow.take(1), []
    for _ in range(4):
        early += other.take(1, 0.7)
        slow.do("progress", body="progress")
    said = time.monotonic()
    seen += other.take(1, 4)
    waited = round((time.monotonic() - said) * 1000)
    return {"early": len(early), "counts": counts(seen), "after_the_last": Waits((waited,))}


@ALL.add(
    "MaxAckPending 3, all three nak'ed with a delay of 2",
    more=better("messages that wait are in nobody's hands, and do not count"),
)
def max_ack_pending(side: Side) -> Facts:
    for number in range(6):
        side.send("pending", f"pending {number}")
    consumer = side.consumer("pending", jetstream={**PATIENT, "max_ack_pending": 3})
    seen = consumer.take(3)
    held = consumer.take(1, 0.7)
    for delivery in seen:
        consumer.do("nak", body=delivery.body, delay=2)
    return {"first": len(seen), "while_held": len(held), "more": len(consumer.take(3, 0.5))}


LAPSED = differs(
    "the lease is over once maintenance or a claim has seen it lapse; a worker extends it while it works"
)


@ALL.add("an ack after AckWait, and nobody has fetched the message again", ack=LAPSED, more=LAPSED)
def late_ack(side: Side) -> Facts:
    side.send("late", "late")
    consumer = side.consumer("late", jetstream={"ack_wait": 0.5, "max_deliver": 5})
    consumer.take(1)
    side.find("no such message", within=1)  # so long it waits
    return {"ack": ack(consumer, "late"), "more": len(consumer.take(1, 1))}


@ALL.add(
    "an ack of the first holder, while a second one works on the message",
    ack=better("the first holder is told"),
    delivered_again=better("the ack of who lost the lease does nothing, so a failure of the second is seen"),
)
def stale_ack(side: Side) -> Facts:
    side.send("stale", "stale")
    settings = {"ack_wait": 1, "max_deliver": 5}
    first, second = (side.consumer("stale", jetstream=settings) for _ in range(2))
    seen = first.take(1) + second.take(1, 3)
    acked = ack(first, "stale")
    return {"counts": counts(seen), "ack": acked, "delivered_again": bool(second.take(1, 2.5))}


def ack(consumer: Consumer, body: str) -> str:
    """Ack; what came of it."""
    try:
        consumer.do("ack", body=body)
    except DriverError as error:
        return str(error).partition(":")[0]
    return "accepted"


@ALL.add("three of five are nak'ed in order")
def nak_order(side: Side) -> Facts:
    for number in range(5):
        side.send("order", f"order {number}")
    consumer = side.consumer("order", jetstream=PATIENT)
    for delivery in consumer.take(3):
        consumer.do("nak", body=delivery.body)
    again = sorted(consumer.take(5), key=lambda delivery: delivery.body)
    return {"bodies": tuple(body[-1] for body in bodies(again)), "counts": counts(again)}


@ALL.add("an id published again while its message is in the stream")
def same_id(side: Side) -> Facts:
    side.send("ids", "ids", id="one")
    side.again("ids", "ids", id="one")
    consumer = side.consumer("ids", jetstream=PATIENT)
    return {"deliveries": len(consumer.take(2, 1))}


@ALL.add(
    "an id published again after the ack",
    again=differs("there ids are known for two minutes, here an id is free when its message is gone"),
)
def same_id_after_ack(side: Side) -> Facts:
    side.send("acked", "acked", id="two")
    consumer = side.consumer("acked", jetstream=PATIENT)
    first = consumer.take(1)
    consumer.do("ack", body="acked")
    side.again("acked", "acked", id="two")
    return {"first": len(first), "again": len(consumer.take(1, 1))}


@ALL.add("the same, with a `dedup_window` of 2 minutes here")
def acked_id_remembered(side: Side) -> Facts:
    side.send("remembered", "remembered", id="three")
    consumer = side.consumer("remembered", jetstream=PATIENT, window="2m")
    first = consumer.take(1)
    consumer.do("ack", body="remembered")
    side.again("remembered", "remembered", id="three")
    return {"first": len(first), "again": len(consumer.take(1, 1))}


@ALL.add("5 fetched, the consumer is silent, MaxDeliver 2", ends_in=KEPT)
def silent_batch(side: Side) -> Facts:
    for number in range(5):
        side.send("batch", f"batch {number}")
    seen = [*side.consumer("batch", jetstream={"ack_wait": 1, "max_deliver": 2}).rest(2.5)]
    left = side.find("batch", 5)
    return {"deliveries": len(seen), "left": len(left), "ends_in": places(left)}


@ALL.add("the consumer is killed with SIGKILL, AckWait 1")
def killed(side: Side) -> Facts:
    settings = {"ack_wait": 1, "max_deliver": 3}
    side.send("kill", "kill")
    with side.process("kill", jetstream=settings) as consumer:
        seen = consumer.take(1)
        consumer.kill()
    seen += side.consumer("kill", jetstream=settings).take(1, 4)
    return {"counts": counts(seen)}


@ALL.add("the server is killed with SIGKILL after two deliveries")
def server_killed(side: Side) -> Facts:
    settings = {"ack_wait": 1, "max_deliver": 5}
    side.send("crash", "crash")
    consumer = side.consumer("crash", jetstream=settings)
    seen = consumer.take(2, 3)
    side.crash()
    after = side.consumer("crash", jetstream=settings).take(1, 5)
    return {"before": counts(seen), "after": counts(after)}
