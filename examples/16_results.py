"""A caller waits for a report. Its first try dies; it is redriven, and the caller gets its result."""

import threading

from rq_dlq import Broker, RedeliveryPolicy, ResultError

broker = Broker()
reports = broker.queue("reports", redelivery=RedeliveryPolicy(max_redeliveries=0))


def work() -> None:
    """The part of a worker: the second try finds the data."""
    for data in (None, [1200, 800]):
        (delivery,) = reports.claim(wait="20s")
        if data is None:
            delivery.nack(ValueError("no data for November yet"))
        else:
            delivery.ack(result={"month": delivery.body, "total": sum(data)})


threading.Thread(target=work).start()
sent = reports.send("2026-11", result=True)
try:
    sent.result(wait="20s")
except ResultError as error:
    print(f"{error.end}: {error.cause}")

reports.dlq.redrive(all=True).wait()
print(sent.result(wait="20s"))
