"""The program that is deployed: its broker reads $RQ_DLQ_URL, its workers run `rq-dlq worker shop:broker`."""

import os

from rq_dlq import Broker

broker = Broker(version=os.environ.get("SHOP_VERSION", ""))
orders = broker.queue("orders")


# A call that runs longer fails. The grace periods in the files beside this one are longer.
@orders.handler(concurrency=4, timeout="30s")
def charge(order: dict[str, int]) -> None:
    print("charged", order["id"], flush=True)


if __name__ == "__main__":  # python shop.py: the producer
    orders.send_many({"id": number} for number in range(10))
    print("sent 10 orders")
