"""What a worker process of a Django project imports: `rq-dlq worker rq_dlq.django.worker:broker`.

`manage.py rq_dlq worker` does so. It needs $DJANGO_SETTINGS_MODULE, and imports `tasks.py` of each app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import django
from django.apps import apps
from django.conf import settings
from django.utils.module_loading import autodiscover_modules, import_string

from rq_dlq.django.apps import broker as project_broker

if TYPE_CHECKING:
    from rq_dlq.django.sending import Broker


def _with_handlers() -> Broker:
    """The broker, with the handlers and tasks of the project."""
    if not apps.ready:
        django.setup()
    autodiscover_modules("tasks")
    if tasks := getattr(settings, "TASKS", {}):
        from rq_dlq.django.backend import TaskBackend  # noqa: PLC0415 - without tasks nothing may have them

        for alias, params in tasks.items():
            if issubclass(backend := import_string(params["BACKEND"]), TaskBackend):
                backend(alias, params).serve()
    return project_broker()


broker = _with_handlers()
