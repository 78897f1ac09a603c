"""Sentry: an error is reported when its message dies, not at each try, and once a group of dead letters.

Needs `pip install sentry-sdk`. With $SENTRY_DSN it reports to your project, without one it prints.
"""

import os

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.transport import Transport

from rq_dlq import Broker, Observer, RedeliveryPolicy, Settled


class Deaths(Observer):
    """Reports the first death of each group in this process."""

    def __init__(self) -> None:
        self.reported: set[tuple[str, str]] = set()

    def settled(self, settled: Settled) -> None:
        group = (settled.queue, settled.cause.fingerprint)
        if settled.outcome != "dead" or group in self.reported:
            return
        self.reported.add(group)
        with sentry_sdk.new_scope() as scope:
            scope.fingerprint = [*group]  # the reports of all processes are one issue
            scope.set_tag("queue", settled.queue)
            scope.set_context("dead letter", {"id": settled.id, "group": settled.cause.fingerprint})
            if isinstance(settled.error, BaseException):
                sentry_sdk.capture_exception(settled.error)
            else:
                sentry_sdk.capture_message(str(settled.cause), level="error")


class Printing(Transport):
    """In place of the network."""

    def capture_envelope(self, envelope: Envelope) -> None:
        if (event := envelope.get_event()) is not None:
            error = event["exception"]["values"][-1]
            print(f"reported: {error['type']}: {error['value']} {event['fingerprint']}")


DSN = os.environ.get("SENTRY_DSN")
sentry_sdk.init(
    DSN or "https://key@localhost/1",
    transport=None if DSN else Printing,
    include_local_variables=False,  # they have the bodies of messages
)
ignore_logger("rq_dlq.worker")  # it logs each death as an error, and Sentry would report each line

broker = Broker()
broker.observe(Deaths())
orders = broker.queue("example-sentry", redelivery=RedeliveryPolicy(initial_delay=0, max_redeliveries=1))


@orders.handler
def charge(order: int) -> None:
    if order < 0:
        raise ValueError("the amount is negative")
    if order > 2:
        raise ConnectionError("the bank does not answer")


orders.purge(all=True)
orders.dlq.purge(all=True)
orders.send_many([1, 2, 3, 4, 5, -1])
broker.run(burst=True)
sentry_sdk.flush()
for group in orders.dlq.groups():
    print(f"{group.count} dead: {group.error} [{group.fingerprint}]")
orders.dlq.purge(all=True)
