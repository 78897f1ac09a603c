"""The examples of web programs run: a server, a worker beside it, and their own tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.checkout import ROOT
from tests.needs import lack, need
from tests.servers.postgres import programs
from tests.servers.postgres import running as postgres
from tests.servers.started import Started

API, SHOP = ROOT / "examples" / "fastapi_shop", ROOT / "examples" / "django_shop"
PATIENCE = 120.0  # seconds; the machine may be busy
PAGE = "/admin/rq_dlq/queues/"
pytestmark = pytest.mark.timeout(900)  # each is several programs, which a busy machine starts slowly


@contextmanager
def served(app: str, home: Path, environment: dict[str, str], *options: str) -> Generator[httpx.Client]:
    """A client of uvicorn, which answers once its socket is there."""
    command = [sys.executable, "-m", "uvicorn", app, "--uds", environment["SOCKET"], *options]
    with Started(command, cwd=home, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        told = ""
        for line in server.stderr:
            told += line
            if "Uvicorn running" in line:
                break
        else:
            pytest.fail(told)
        threading.Thread(target=server.stderr.read, daemon=True).start()  # the pipe must not fill
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=environment["SOCKET"]),
            base_url="http://localhost", timeout=PATIENCE,
        ) as client:  # fmt: skip
            yield client
        server.terminate()


@contextmanager
def working(command: list[str], home: Path, environment: dict[str, str]) -> Generator[None]:
    """A worker, to its end."""
    with Started([sys.executable, *command], cwd=home, env=environment) as worker:
        yield
        worker.terminate()


@pytest.fixture
def environment(empty_socket: str, tmp_path: Path) -> dict[str, str]:
    """Of the programs."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",  # nothing is left in the checkout
        "RQ_DLQ_URL": f"unix://{empty_socket}",
        "REDIS_URL": f"unix://{empty_socket}",
        "SHOP_DATABASE": str(tmp_path / "shop.sqlite3"),
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "SOCKET": str(tmp_path / "http"),
    }


def test_the_tests_of_the_fastapi_example_pass(environment: dict[str, str]) -> None:
    need("fastapi", "dev")
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, *command, "-o", "asyncio_default_fixture_loop_scope=function"],
        cwd=API, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "3 passed" in ran.stdout


def test_fastapi_with_a_worker_beside_it(environment: dict[str, str]) -> None:
    need("fastapi", "dev")
    worker = ["-m", "rq_dlq", "worker", "api:broker"]
    with served("api:app", API, environment) as client, working(worker, API, environment):
        end = time.monotonic() + PATIENCE
        while (answer := client.post("/invoices", json={"item": "cake", "pieces": 3})).status_code == 404:
            assert time.monotonic() < end, "the worker has not started"
        assert answer.json() == {"total": 12.0}
        told = client.post("/invoices", json={"item": "coffee"})
        assert (told.status_code, told.json()["detail"]) == (422, "rq_dlq.errors.Poison: there is no coffee")
        answer = client.post("/orders", json={"item": "tea"})
        assert answer.status_code == 202
        assert client.get("/orders/none").status_code == 404


@pytest.fixture(params=["sqlite", "postgres"])
def _database(request: pytest.FixtureRequest, environment: dict[str, str]) -> Iterator[None]:
    need("django", "dev")
    with ExitStack() as stack:
        if request.param == "postgres":
            if programs() is None:
                lack("no postgresql here: apt-get install postgresql")
            need("psycopg", "dev")
            url = stack.enter_context(postgres())
            environment["SHOP_POSTGRES"] = parse_qs(urlsplit(url).query)["host"][0]
        yield


@pytest.mark.usefixtures("_database")
def test_a_newcomers_django_project(environment: dict[str, str]) -> None:
    """Ten files, of which only the settings name us: a call in a transaction, its result, the page."""
    files = list(SHOP.rglob("*.py"))
    assert len(files) == 10
    assert [path.name for path in files if "rq_dlq" in path.read_text().lower()] == ["settings.py"]
    manage = [sys.executable, "manage.py"]
    user = {**environment, "DJANGO_SUPERUSER_PASSWORD": "secret"}
    subprocess.run([*manage, "migrate", "-v", "0"], cwd=SHOP, env=environment, check=True)
    create = ["createsuperuser", "--no-input", "--username", "root", "--email", "root@shop.example"]
    subprocess.run([*manage, *create], cwd=SHOP, env=user, check=True, stdout=subprocess.DEVNULL)
    application = "django.core.asgi:get_asgi_application"
    with served(application, SHOP, environment, "--factory") as client:
        placed = client.post("/orders/", data={"item": "tea", "total": "3.50"}).json()
        where, result = f"/orders/{placed['order']}/", {"result": placed["result"]}
        assert client.get(where, params=result).json()["status"] == "READY"
        burst = [*manage, "rq_dlq", "worker", "--burst"]
        subprocess.run(burst, cwd=SHOP, env=environment, check=True, stderr=subprocess.DEVNULL)
        told = client.get(where, params=result).json()
        assert told == {"invoice": "tea for 3.50", "status": "SUCCESSFUL", "attempts": 1}
        assert client.get(PAGE).status_code == 302
        form = client.get("/admin/login/").text
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        login = {"csrfmiddlewaretoken": token, "username": "root", "password": "secret", "next": PAGE}
        assert client.post("/admin/login/", data=login).headers["location"] == PAGE
        assert f'href="{PAGE}queue?name=default"' in client.get(PAGE).text
        with client.stream("GET", f"{PAGE}live?page=overview") as changes:
            assert "default" in next(changes.iter_text())
