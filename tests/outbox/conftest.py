"""Databases for the tests of the outbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import lack, need
from tests.servers.postgres import programs, running

need("sqlalchemy", "outbox")

from tests.outbox.databases import Database  # noqa: E402 - it needs SQLAlchemy


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    if programs() is None:
        lack("no postgresql here: apt-get install postgresql")
    need("psycopg", "dev")
    with running() as url:
        yield url


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """An empty database, for tests to which its kind does not matter."""
    yield from emptied(f"sqlite:///{tmp_path}/db")


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    """An empty database with concurrent transactions and locks."""
    yield from emptied(postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite")
    else:
        yield request.getfixturevalue("postgres")


def emptied(url: str) -> Iterator[Database]:
    database = Database(url)
    database.empty()
    yield database
    database.close()
