"""A program of Django with an outbox: tests run it as a process of its own, since settings are of a process.

django_program.py URL_OF_REDIS ENGINE NAME HOST
"""

# ruff: noqa: T201 - it prints what it has seen

from __future__ import annotations

import sys
from typing import Any

import django
from django.conf import settings

if __name__ == "__main__":
    _, URL, ENGINE, NAME, HOST = sys.argv
    here = {"ENGINE": f"django.db.backends.{ENGINE}", "NAME": NAME, "HOST": HOST, "USER": "postgres"}
    settings.configure(INSTALLED_APPS=["rq_dlq.django"], DATABASES={"default": here}, USE_TZ=True)
    django.setup()

from django.core.management import call_command
from django.db import connection, transaction

from rq_dlq import Broker, InvalidInput
from rq_dlq.django.models import OutboxRelay, OutboxRow
from rq_dlq.django.outbox import DjangoLedger, Outbox
from rq_dlq.errors import ConfigurationError
from rq_dlq.outbox import Relay
from tests.outbox.databases import Killed, Life, an_hour_passes, taken


class MortalLedger(DjangoLedger):
    """Each of its transactions is a step."""

    life: Life

    def read(self) -> Any:
        return self.life.do(super().read)

    def advance(self, *args: Any) -> Any:
        return self.life.do(lambda: super(MortalLedger, self).advance(*args))

    def load(self, call: Any) -> Any:
        return self.life.do(lambda: super(MortalLedger, self).load(call))


class MortalOutbox(Outbox):
    """Its relay dies at a step."""

    life: Life

    def with_ledger(self, work: Any) -> None:
        ledger = MortalLedger(self._using, self.name)
        ledger.life = self.life
        try:
            work(ledger)
        finally:
            connection.close()


def main() -> None:
    broker = Broker(URL)
    queue, raw = broker.queue("a"), redis.Redis(unix_socket_path=URL.removeprefix("unix://"))
    outbox = Outbox(broker)
    try:
        Relay(outbox, burst=True).run()
    except ConfigurationError as error:
        print("missing tables are told", "rq_dlq_outbox_relays" in str(error))
    call_command("migrate", verbosity=0)
    call_command("makemigrations", "rq_dlq", check=True, verbosity=0)
    with transaction.atomic():
        outbox.send(queue, 1)
        try:
            with transaction.atomic():
                outbox.send(queue, 2)
                outbox.send(queue, object())
        except InvalidInput:
            print("refused in the transaction")
    sent = outbox.send(queue, 3, id="three")
    assert (sent, sent.new) == ("three", None)
    relay = Relay(outbox, burst=True)
    relay.run()
    print("came", taken(queue), relay.sent, OutboxRow.objects.count(), OutboxRelay.objects.count())
    mortal, came, steps = MortalOutbox(broker), list[int](), 0
    for number in range(40):
        mortal.send(queue, number)
    while True:
        mortal.life = Life(steps, lost=True)
        try:
            Relay(mortal, burst=True).run()
            break
        except Killed:
            came += taken(queue)
            an_hour_passes(raw)
            steps += 1
    print("in order", came + taken(queue) == [*range(40)], steps > 3)
    asks = outbox.send(queue, 1, result=True)
    Relay(outbox, burst=True).run()
    queue.claim()[0].ack(result="done")
    print("result", asks.result())
    broker.close()


if __name__ == "__main__":
    import redis

    main()
