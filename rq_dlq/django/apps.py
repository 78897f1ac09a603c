"""The app for INSTALLED_APPS."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks

from rq_dlq.errors import ConfigurationError
from rq_dlq.values.cached import cached_property

if TYPE_CHECKING:
    from rq_dlq.django.sending import Broker


class RqDlqConfig(AppConfig):
    """The app; its label, as in names of permissions and tables, is `rq_dlq`."""

    name = "rq_dlq.django"
    label = "rq_dlq"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    @cached_property
    def broker(self) -> Broker:
        """The broker of the project."""
        from rq_dlq.django.sending import Broker, FreshConnections  # noqa: PLC0415 - needs the settings
        from rq_dlq.django.setting import of_broker  # noqa: PLC0415

        broker = Broker(settings=of_broker())
        broker.observe(FreshConnections())
        return broker

    def ready(self) -> None:
        """Have `manage.py check`, and each command that begins with it, look at the settings."""
        checks.register(_check)
        tasks = "django.tasks" if find_spec("django.tasks") else "django_tasks"
        if getattr(settings, "TASKS", None) and find_spec(tasks):
            import_module(f"{tasks}.checks")  # asks each backend; else only who imports a task has it


def broker() -> Broker:
    """The broker of the project."""
    return cast("RqDlqConfig", apps.get_app_config("rq_dlq")).broker


def _check(**_: Any) -> list[checks.CheckMessage]:
    from rq_dlq.django.setting import of_broker  # noqa: PLC0415

    try:
        of_broker()
    except ConfigurationError as error:
        return [checks.Error(str(error), id="rq_dlq.E001")]
    return []
