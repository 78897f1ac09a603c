"""The permissions for the page."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes no table."""

    initial = True
    dependencies: ClassVar = []
    operations: ClassVar = [
        migrations.CreateModel(
            "Queues",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                )
            ],
            {
                "managed": False,
                "default_permissions": ("view", "change"),
                "verbose_name": "queues and dead letters",
                "verbose_name_plural": "queues and dead letters",
            },
        ),
    ]
