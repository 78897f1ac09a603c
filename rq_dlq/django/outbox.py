"""The outbox for Django."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from django.db import Error, IntegrityError, connections, transaction
from django.db.models import Count, Max, Min
from django.db.models.functions import Now

from rq_dlq.django.models import OutboxRelay, OutboxRow
from rq_dlq.outbox.ledger import AT_ONCE, DatabaseUnavailable, Ledger
from rq_dlq.outbox.noted import RelayCalls, UnnotedRow
from rq_dlq.outbox.row import OutboxSendOptions, row_of
from rq_dlq.values.names import check_name

if TYPE_CHECKING:
    from datetime import datetime

    from rq_dlq.client.base import BrokerBase
    from rq_dlq.values.sent import Sent


class Outbox:
    """Messages that are written in the transaction of the program, and sent by a relay after its commit.

    Args:
        broker: the broker of the queues.
        using: the name of the database.
        name: the relay of this name sends the rows that were written under it.
    """

    def __init__(self, broker: BrokerBase, using: str = "default", *, name: str = "outbox") -> None:
        check_name(name)
        self.broker = broker
        self.name = name
        self._using = using

    def send(self, queue: Any, body: Any, **options: Unpack[OutboxSendOptions]) -> Sent:
        """Write a message to the outbox, in the transaction of the database's connection.

        Args:
            queue: a queue of the broker; or a task, whose options are those of `task.options(…)`.
            body: the body, of the queue's type; of a task the arguments: a tuple or a mapping.
            options: as in `Queue.send`, without `on_duplicate`. Delay and ttl count from the moment at which
                the relay sends the message.

        Returns:
            The id that the message will have; its `new` is None. With `result=True` it has `result`, as after
            `Queue.send`.

        Raises:
            InvalidInput: an argument is not valid, or the body cannot be encoded; nothing was written.
        """
        row, sent = row_of(self.broker, queue, body, options)
        OutboxRow.objects.using(self._using).create(
            outbox=self.name, queue=row.queue, message=row.id, payload=row.payload, size=len(row.payload),
            delay=row.delay, ttl=row.ttl,
        )  # fmt: skip
        return sent

    def with_ledger(self, work: Callable[[Ledger], Any]) -> None:
        """For the relay: connect to the database, and do this."""
        try:
            work(DjangoLedger(self._using, self.name))
        except Error as error:
            raise DatabaseUnavailable(str(error).strip()) from error
        finally:
            connections[self._using].close()  # its lock ends with it


class DjangoLedger(Ledger):
    """The tables of an outbox, by one connection."""

    taken = IntegrityError

    def __init__(self, using: str, name: str) -> None:
        self._rows = OutboxRow.objects.using(using).filter(outbox=name)
        self._relay = OutboxRelay.objects.using(using).filter(outbox=name)
        connection = connections[using]

        def ask(sql: str) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchone()[0]

        address = [str(connection.settings_dict[word]) for word in ("HOST", "PORT", "NAME")]
        postgres = connection.vendor == "postgresql"
        super().__init__(name, partial(transaction.atomic, using), ask if postgres else None, address)

    def _noted(self) -> tuple[str, int, str] | None:
        return self._relay.values_list("sender", "last", "calls").first()

    def _insert(self, values: dict[str, Any]) -> None:
        self._relay.create(**values)

    def _note(self, seen: RelayCalls, values: dict[str, Any]) -> bool:
        return self._relay.filter(last=seen.last, calls=seen.text).update(**values) == 1

    def _waiting(self, held: set[str]) -> list[UnnotedRow]:
        rows = self._rows.exclude(queue__in=held).order_by("number")
        columns = ("number", "queue", "delay", "ttl", "size")
        return [UnnotedRow(*row) for row in rows.values_list(*columns)[:AT_ONCE]]

    def _delete(self, rows: Sequence[int]) -> None:
        self._rows.filter(number__in=rows).delete()

    def _load(self, rows: Sequence[int]) -> list[tuple[str, bytes]]:
        found = self._rows.filter(number__in=rows).order_by("number")
        return [(message, bytes(payload)) for message, payload in found.values_list("message", "payload")]

    def _counted(self) -> tuple[int, datetime | None, datetime]:
        found = self._rows.aggregate(rows=Count("number"), first=Min("written_at"), now=Max(Now()))
        return found["rows"], found["first"], found["now"]
