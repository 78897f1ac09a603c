"""The rows that try verb by verb leave none out without a reason."""

from __future__ import annotations

from pathlib import Path

import fakeredis
import pytest
import redis

import rq_dlq
from rq_dlq._scripts import Scripts
from tests import servers
from tests.colours import Awaited
from tests.conftest import MOVED_CLOCK, Clock
from tests.reliability import life, verbs
from tests.reliability.rights import World
from tests.reliability.rows import damaged, failovers, server_errors
from tests.servers import Server
from tests.verbs import VERBS, check_all_tried, names, run_on


def test_a_life_goes_through_every_verb() -> None:
    """T6, T14."""
    with rq_dlq.Broker(pool=fakeredis.FakeRedis().connection_pool) as broker:
        one = life.Life(Awaited(broker), "one")
        life.drive(one.live())
    assert not one.wrong
    check_all_tried(VERBS, +one.calls, life.ELSEWHERE)


def test_a_zombie_settles_in_every_way() -> None:
    """T12."""
    check_all_tried(names(VERBS, "settle"), failovers.VERBS, {})


def test_every_kind_of_verb_meets_the_errors_of_servers() -> None:
    """T19."""
    kinds = {VERBS[name].kind for name in server_errors.VERBS}
    without = {name: reason for kind, reason in server_errors.WITHOUT.items() for name in names(VERBS, kind)}
    check_all_tried(VERBS, names(VERBS, *kinds), without)


@pytest.mark.redis
def test_each_role_does_all_that_it_may(tmp_path: Path) -> None:
    """T20."""
    with Server(tmp_path) as server:
        world = World(server)
        for role, deeds in verbs.VERBS.items():
            world.raw.script_flush()
            with world.broker("default") as broker:
                for deed in deeds.values():
                    deed(verbs.Hands(world, broker))
                    world.restore()
            may = {name for name, verb in VERBS.items() if role in verb.roles}
            check_all_tried(may, run_on(world.raw, Scripts()) & may, {})


@pytest.mark.redis
def test_every_verb_meets_what_is_damaged() -> None:
    """T23."""
    with (
        servers.running() as path,
        redis.Redis(unix_socket_path=path) as raw,
        rq_dlq.Broker(f"unix://{path}", scripts=MOVED_CLOCK) as broker,
    ):
        shop = damaged.Shop(raw, broker, Clock(raw))
        tried: set[str] = set()
        for verb, place in damaged.TRIALS:
            shop.open(place)
            raw.script_flush()
            damaged.VERBS[verb][1](shop)
            tried |= run_on(raw, MOVED_CLOCK)
    check_all_tried(VERBS, tried, damaged.WITHOUT)
