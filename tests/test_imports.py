"""What an import loads at once, and what waits until it is used."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import click

from rq_dlq.cli import SENTENCES, main
from rq_dlq.values.cached import cached_property
from tests.tables import each_row

CASES = {
    "from rq_dlq import Broker, RedeliveryPolicy": (
        "redis asyncio ssl tenacity lark rich click rq_dlq.embedded rq_dlq.asyncio rq_dlq.worker"
    ),
    "from rq_dlq.cli import main; main(['--help'], standalone_mode=False)": (
        "redis asyncio rich msgspec rq_dlq.client rq_dlq.worker rq_dlq.doctor rq_dlq.cli.demo"
    ),
    "from rq_dlq.cli import main; main(['send', '--help'], standalone_mode=False)": (
        "redis asyncio rq_dlq.worker rq_dlq.doctor rq_dlq.cli.demo"
    ),
}


@each_row("code", CASES)
def test_an_import_loads_no_more_than_it_needs(code: str) -> None:
    told = f"{code}; import sys; print('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "rq_dlq" in loaded
    assert set(CASES[code].split()) & loaded == set()


USES = """
import socket, sys, rq_dlq
broker = rq_dlq.Broker(sys.argv[1])
queue = broker.queue('imports')
before = set(sys.modules)
queue.send_many([{'a': 1}] * 3)
for settle in ('ack', 'nack', 'poison'):
    getattr(queue.claim()[0], settle)()
socket.getaddrinfo('localhost', 80)  # the socket of this server has none
queue.stats(), queue.dlq.groups(), queue.peek(), broker.overview()
print(*set(sys.modules) - before)
"""


def test_the_first_use_of_a_blocking_broker_imports_nothing(empty_socket: str) -> None:
    """Another thread may fork meanwhile: in its child the modules would stay locked."""
    url = f"unix://{empty_socket}?db=5"
    done = subprocess.run([sys.executable, "-c", USES, url], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_what_is_computed_once_locks_nothing() -> None:
    """As the functools of Python 3.11 would, so that a child that is forked meanwhile waits for ever."""
    computing, done = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self) -> int:
            if not computing.is_set():
                computing.set()
                assert done.wait(60)
            return 1

    slow = Slow()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(lambda: slow.value)
        assert computing.wait(60)
        assert pool.submit(lambda: slow.value).result(30) == 1
        done.set()
        assert first.result(60) == 1
    assert vars(slow) == {"value": 1}


def test_the_awaiting_colour_loads_redis_at_once() -> None:
    """Later the import would hold up the event loop."""
    code = "import sys, rq_dlq.asyncio; print('redis.asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@each_row("name", SENTENCES)
def test_each_command_that_help_names_is_one(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert command.help
