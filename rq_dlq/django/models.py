"""The models of the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models
from django.db.models.functions import Now

if TYPE_CHECKING:
    from datetime import datetime


class Queues(models.Model):  # noqa: DJ008 - there are no instances
    """No table: it brings the page into the admin, with the permissions to see and to change queues."""

    class Meta:
        """Its name in the admin."""

        managed = False
        default_permissions = ("view", "change")
        verbose_name = verbose_name_plural = "queues and dead letters"


class OutboxRow(models.Model):  # noqa: DJ008 - it is not printed
    """A message that a relay will send; the table is that of `rq_dlq.outbox`."""

    number: models.BigAutoField[int, int] = models.BigAutoField(primary_key=True)
    outbox: models.CharField[str, str] = models.CharField(max_length=200)
    queue: models.CharField[str, str] = models.CharField(max_length=200)
    message: models.CharField[str, str] = models.CharField(max_length=200, db_column="id")
    payload: models.BinaryField[bytes, bytes] = models.BinaryField()
    size: models.BigIntegerField[int, int] = models.BigIntegerField()
    delay: models.BigIntegerField[int, int] = models.BigIntegerField()
    ttl: models.BigIntegerField[int, int] = models.BigIntegerField()
    written_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(db_default=Now())

    class Meta:
        """Its table; it has no permissions."""

        db_table = "rq_dlq_outbox"
        default_permissions = ()


class OutboxRelay(models.Model):  # noqa: DJ008
    """What the relays of an outbox have noted."""

    outbox: models.CharField[str, str] = models.CharField(max_length=200, primary_key=True)
    sender: models.CharField[str, str] = models.CharField(max_length=64)
    last: models.BigIntegerField[int, int] = models.BigIntegerField()
    calls: models.TextField[str, str] = models.TextField()

    class Meta:
        """Its table; it has no permissions."""

        db_table = "rq_dlq_outbox_relays"
        default_permissions = ()
