"""Forty customers' orders stay in order while workers are killed."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rq_dlq import Broker, Message, PerKey, Queue, RedeliveryPolicy

CUSTOMERS, ORDERS = 40, 6


def work(log: Path) -> None:
    """A worker: writes down each order that it has done, and then acks it."""
    with Broker() as broker, log.open("a", buffering=1) as done:
        for delivery in shop(broker).consume(wait="10s"):
            with delivery:
                time.sleep(0.005)  # the work
                done.write(f"{delivery.key} {delivery.body}\n")


def shop(broker: Broker) -> Queue[int]:
    rule = PerKey(order=True)
    return broker.queue("shop", per_key=rule, lease="1s", redelivery=RedeliveryPolicy(initial_delay="100ms"))


if __name__ == "__main__":
    broker = Broker()
    orders = shop(broker)
    orders.send_many(
        Message(number, key=f"customer-{customer}")
        for number in range(ORDERS)
        for customer in range(CUSTOMERS)
    )
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        log.touch()
        killed, workers = 0, [multiprocessing.Process(target=work, args=(log,)) for _ in range(3)]
        for worker in workers:
            worker.start()
        while orders.stats().waiting + orders.stats().leased:
            time.sleep(0.02)
            done = log.read_text().count("\n")
            if killed < 3 and done > 60 * killed:  # without a word, in the middle of an order
                os.kill(workers[killed].pid or 0, signal.SIGKILL)
                workers.append(multiprocessing.Process(target=work, args=(log,)))
                workers[-1].start()
                killed += 1
        for worker in workers:
            worker.kill()
        lines = [line.split() for line in log.read_text().splitlines()]
    mixed_up = 0
    for customer in range(CUSTOMERS):
        numbers = [int(number) for key, number in lines if key == f"customer-{customer}"]
        mixed_up += numbers != sorted(numbers)  # an order may be done twice: its worker died before the ack
    print(f"{killed} workers killed, {len({tuple(line) for line in lines})} orders done")
    print(f"{mixed_up} customers out of order")
