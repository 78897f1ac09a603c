"""Through Sentinel: a real one, with a master and a replica."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rq_dlq import BrokerRefused, BrokerUnavailable
from tests.connections.conftest import Opening
from tests.servers import Server, free_port, wait_until
from tests.servers.sentinels import MASTER, Watched

PATIENT = "20s"
"""A master that does not answer for half a second, as on a busy machine, counts as down for a moment."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A master and its replica."""
    with Watched(tmp_path_factory.mktemp("watched")) as servers:
        yield servers


def master_of(watched: Watched) -> Server:
    """The master, once there is one."""
    wait_until(watched.well)
    master = watched.master()
    assert master is not None
    return master


async def test_the_master_is_found(opened: Opening, watched: Watched) -> None:
    async with opened(watched.url, patience=PATIENT) as broker:
        await broker.queue("a").send("x")
    assert watched.client(master_of(watched)).exists("rq:{a}:messages")


async def test_the_next_master_is_found(opened: Opening, watched: Watched) -> None:
    """Also by who holds a connection to the old one."""
    old = master_of(watched)
    async with opened(watched.url, patience=PATIENT) as broker:
        queue = broker.queue("a")
        await queue.send("x")
        old.kill()
        try:
            await queue.send("y")
            wait_until(lambda: watched.master() not in {old, None})  # the other sentinels are told later
            new = watched.master()
        finally:
            old.start()
    assert new is not None
    watched.follow(old, new)
    assert watched.client(new).exists("rq:{a}:messages")


async def test_nobody_knows_the_master(opened: Opening, watched: Watched) -> None:
    async with opened(watched.url.replace(f"/{MASTER}/", "/invoices/"), patience="0s") as broker:
        with pytest.raises(BrokerUnavailable, match="no sentinel knows a healthy master 'invoices'"):
            await broker.queues()


async def test_no_sentinel_answers(opened: Opening) -> None:
    async with opened(f"redis+sentinel://127.0.0.1:{free_port()}/{MASTER}", patience="0s") as broker:
        with pytest.raises(BrokerUnavailable, match="no sentinel knows a healthy master"):
            await broker.queues()


async def test_one_sentinel_of_several_is_enough(opened: Opening, watched: Watched) -> None:
    url = f"redis+sentinel://127.0.0.1:{free_port()},{watched.hosts}/{MASTER}"
    async with opened(url, patience=PATIENT) as broker:
        await broker.queue("a").send("x")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """With a password, which the sentinels want, too."""
    with Watched(tmp_path_factory.mktemp("guarded"), password="secret") as servers:  # noqa: S106
        yield servers


async def test_users_of_the_sentinels_and_of_the_servers(opened: Opening, guarded: Watched) -> None:
    place = f"{guarded.hosts}/{MASTER}/0"
    url = f"redis+sentinel://:secret@{place}?sentinel_password=secret"
    async with opened(url, patience=PATIENT) as broker:
        await broker.queue("a").send("x")
    async with opened(f"redis+sentinel://:secret@{place}", patience="0s") as broker:
        with pytest.raises(BrokerUnavailable, match="put sentinel_username and sentinel_password"):
            await broker.queues()
    async with opened(f"redis+sentinel://{place}?sentinel_password=secret", patience=PATIENT) as broker:
        with pytest.raises(BrokerRefused, match="the server requires a password"):
            await broker.queues()
