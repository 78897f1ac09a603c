"""The tables of the outbox."""

from typing import ClassVar

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes the tables that `rq_dlq.outbox` has for SQLAlchemy."""

    dependencies: ClassVar = [
        ("rq_dlq", "0001_initial"),
    ]

    operations: ClassVar = [
        migrations.CreateModel(
            name="OutboxRelay",
            fields=[
                ("outbox", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("sender", models.CharField(max_length=64)),
                ("last", models.BigIntegerField()),
                ("calls", models.TextField()),
            ],
            options={
                "db_table": "rq_dlq_outbox_relays",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("number", models.BigAutoField(primary_key=True, serialize=False)),
                ("outbox", models.CharField(max_length=200)),
                ("queue", models.CharField(max_length=200)),
                ("message", models.CharField(db_column="id", max_length=200)),
                ("payload", models.BinaryField()),
                ("size", models.BigIntegerField()),
                ("delay", models.BigIntegerField()),
                ("ttl", models.BigIntegerField()),
                ("written_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "rq_dlq_outbox",
                "default_permissions": (),
            },
        ),
    ]
