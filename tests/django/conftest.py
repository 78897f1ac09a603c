"""A Django project, that of the example, with the broker of a test; SQLite, and PostgreSQL where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("django", reason="no django here: pip install -e '.[dev]'")

import django
import fakeredis
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from rq_dlq.django.sending import Broker, FreshConnections
from rq_dlq.testing.clock import MOVED_CLOCK
from tests.checkout import ROOT
from tests.needs import lack, need
from tests.servers.postgres import programs
from tests.servers.postgres import running as postgres

SHOP = ROOT / "examples" / "django_shop"
POSTGRES = "postgres"
"""The alias of the other database."""


@pytest.fixture(scope="session", autouse=True)
def _shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The project of the example, with an empty SQLite of its own; of every test, whichever is the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_DATABASE", str(tmp_path_factory.mktemp("shop") / "shop.sqlite3"))
        patch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
        patch.syspath_prepend(SHOP)
        django.setup()
        call_command("migrate", verbosity=0)
        yield
        connections.close_all()


@pytest.fixture(scope="session")
def _postgres(_shop: None) -> Iterator[None]:
    """PostgreSQL beside it."""
    if programs() is None:
        lack("no postgresql here: apt-get install postgresql")
    need("psycopg", "dev")
    with postgres() as url:
        default = connections.databases["default"]
        home = parse_qs(urlsplit(url).query)["host"][0]
        own = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": home,
            "NAME": "postgres",
            "USER": "postgres",
        }
        connections.databases[POSTGRES] = {**default, "OPTIONS": {}, **own}
        call_command("migrate", database=POSTGRES, verbosity=0)
        yield
        connections[POSTGRES].close()
        del connections.databases[POSTGRES]


@pytest.fixture(params=["default", POSTGRES])
def database(request: pytest.FixtureRequest, project: Broker) -> Iterator[str]:
    """The database whose commits are awaited: SQLite, or PostgreSQL; its alias."""
    del project
    if request.param == POSTGRES:
        request.getfixturevalue("_postgres")
    with override_settings(RQ_DLQ={"using": request.param}):
        yield request.param


@pytest.fixture
def project(server: Any, clock: Any, _shop: None) -> Iterator[Broker]:
    """The broker of the project, with a moved clock."""
    del clock
    if isinstance(server, str):
        broker = Broker(f"unix://{server}", verbs=MOVED_CLOCK)
    else:
        broker = Broker(pool=fakeredis.FakeRedis(server=server).connection_pool, verbs=MOVED_CLOCK)
    broker.observe(FreshConnections())
    app = apps.get_app_config("rq_dlq")
    app.__dict__["broker"] = broker
    yield broker
    broker.close()
    del app.__dict__["broker"]
