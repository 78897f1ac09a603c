"""Send, claim, settle: the queue by hand."""

from rq_dlq import Broker

broker = Broker()  # $RQ_DLQ_URL, or an embedded server if that is not set
orders = broker.queue("example-orders", lease="30s")
orders.purge(all=True)

orders.send({"order": 1}, headers={"tenant": "a"})
orders.send({"order": 2}, delay="1h")  # not before an hour from now
orders.send({"order": 3}, priority=9)  # before the others
orders.send_many({"order": n} for n in range(4, 10))

for delivery in orders.claim(count=3):
    with delivery:  # acked after the block; an error in it means redelivery by the policy
        print("order", delivery.body["order"], "delivery", delivery.delivery_count)

batch = orders.claim(count=100)
settlements = orders.ack(batch)  # up to a hundred in one call
print(sum(map(bool, settlements)), "acked in one call")
print(orders.stats().scheduled, "scheduled for later")
orders.purge(all=True)
