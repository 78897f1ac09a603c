"""A worker: functions that handle messages, with retries, poison messages and custom delays."""

import msgspec

from rq_dlq import Broker, Delivery, Poison, Redeliver, RedeliveryPolicy


class Order(msgspec.Struct):
    id: int
    total: float


broker = Broker()
orders = broker.queue(
    "example-worker",
    type=Order,
    redelivery=RedeliveryPolicy(initial_delay="200ms", max_redeliveries=2, fatal=(ZeroDivisionError,)),
)


@orders.handler(concurrency=2, timeout="10s")
def charge(order: Order, delivery: Delivery[Order]) -> None:
    if order.total < 0:
        raise Poison("negative total")  # no retry: it becomes a dead letter
    if order.id == 2 and not delivery.redelivered:
        raise Redeliver(after="100ms")  # this delay, instead of the policy's
    print(f"charged order {order.id} at delivery {delivery.delivery_count}")


if __name__ == "__main__":
    orders.purge(all=True)
    orders.dlq.purge(all=True)
    orders.send_many([Order(1, 9.9), Order(2, 5.0), Order(3, -1.0)])
    while orders.stats().waiting:
        broker.run(burst=True)  # without burst: until SIGTERM or SIGINT
    for letter in orders.dlq.browse():
        print(f"order {letter.body.id} is dead: {letter.reason}, {letter.cause.message}")
    orders.dlq.purge(all=True)
