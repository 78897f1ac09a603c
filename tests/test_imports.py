"""What an import loads at once, and what waits until it is used."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from rq_dlq.cli import SENTENCES, main

CASES = {
    "from rq_dlq import Broker, RedeliveryPolicy; Broker('redis://nowhere').queue('orders')": (
        "redis asyncio ssl tenacity lark rich click rq_dlq.embedded rq_dlq.asyncio rq_dlq.worker"
    ),
    "from rq_dlq.cli import main; main(['--help'], standalone_mode=False)": (
        "redis asyncio rich msgspec rq_dlq.client rq_dlq.worker rq_dlq.doctor rq_dlq.cli.demo"
    ),
    "from rq_dlq.cli import main; main(['send', '--help'], standalone_mode=False)": (
        "redis asyncio rq_dlq.worker rq_dlq.doctor rq_dlq.cli.demo"
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_an_import_loads_no_more_than_it_needs(code: str) -> None:
    told = f"{code}; import sys; print('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "rq_dlq" in loaded
    assert set(CASES[code].split()) & loaded == set()


def test_the_awaiting_colour_loads_redis_at_once() -> None:
    """Later the import would hold up the event loop."""
    code = "import sys, rq_dlq.asyncio; print('redis.asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("name", SENTENCES)
def test_each_command_that_help_names_is_one(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert command.help
