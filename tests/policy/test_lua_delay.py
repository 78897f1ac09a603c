"""`Policy.delay` and `RedeliveryPolicy.delay_ms` agree, on fakeredis and on Redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

import fakeredis
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rq_dlq.policy import RedeliveryPolicy
from tests.policy import policies
from tests.scripts.asked import Asked
from tests.tables import each_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Ask: TypeAlias = "Callable[[RedeliveryPolicy, int, float, int | None], float]"

delay = Asked("""\
local wire, n, r, previous = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local wait = Policy.delay(cjson.decode(wire), n, r, previous)
return { string.format('%.17g', wait), wait == math.floor(wait) and 1 or 0 }""")
LONG = {
    "redelivery-delay": 1,
    "redelivery-delay-multiplier": 1e300,
    "max-redelivery-delay": 2**62,
}
previous_wait = st.one_of(st.none(), st.just(0), policies.long)


def asker(client: redis.Redis) -> Ask:
    def ask(policy: RedeliveryPolicy, n: int, r: float, previous: int | None) -> float:
        wire = json.dumps(policy.as_wire())
        wait, whole = delay(client, wire, n, repr(r), "" if previous is None else previous)
        assert whole == 1
        return float(wait)

    return ask


@pytest.fixture(scope="module", params=["fake", "real"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    if request.param == "fake":
        yield asker(fakeredis.FakeRedis())
        return
    with redis.Redis(unix_socket_path=request.getfixturevalue("redis_socket")) as client:
        yield asker(client)


EXAMPLES: list[tuple[RedeliveryPolicy, int, float, int | None]] = [
    (RedeliveryPolicy(), 5_000, 0.999, None),
    (RedeliveryPolicy(max_delay=10), 6, -0.999, None),  # told apart by the order of operations
    (RedeliveryPolicy(initial_delay=0, multiplier=1e300), 5_000, 0.5, None),
    (RedeliveryPolicy(max_delay=None, multiplier=10), 400, -0.5, None),
    (RedeliveryPolicy(max_delay=None, multiplier=10), 400, 0.0, None),  # the longest of all
    (RedeliveryPolicy(delays=[1, 60, 5], collision_avoidance=0.5), 2, 0.9, None),
    (RedeliveryPolicy(delays=[1, 60, 5]), 5_000, 0.9, None),
    (RedeliveryPolicy.artemis(**{"redelivery-delay-multiplier": 1e300}), 5_000, 0.5, None),
    (RedeliveryPolicy.artemis(**LONG), 5_000, 0.5, None),
    (RedeliveryPolicy.activemq(useExponentialBackOff=True), 5_000, 0.5, None),
    (RedeliveryPolicy.activemq(useExponentialBackOff=True), 1, 0.5, 300),
    (RedeliveryPolicy.activemq(useExponentialBackOff=True), 9, 0.5, 0),
    (RedeliveryPolicy.activemq(useExponentialBackOff=True), 9, 0.5, 1),
]


@each_row("policy, n, r, previous", EXAMPLES)
def test_lua_and_python_agree(
    ask: Ask, policy: RedeliveryPolicy, n: int, r: float, previous: int | None
) -> None:
    # As doubles, since Lua has nothing else: the largest long is one off there.
    assert ask(policy, n, r, previous) == float(policy.delay_ms(n, r, previous))


@settings(max_examples=4 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(policies.every, st.one_of(policies.n, st.integers(1, 3)), policies.r, previous_wait)
@pytest.mark.parametrize("ask", ["real"], indirect=True)
def test_lua_and_python_agree_on_what_is_drawn(
    ask: Ask, policy: RedeliveryPolicy, n: int, r: float, previous: int | None
) -> None:
    """On fakeredis the examples above are what numbers of Lua may differ in."""
    assert ask(policy, n, r, previous) == float(policy.delay_ms(n, r, previous))


def test_a_script_goes_on_where_python_refuses(ask: Ask) -> None:
    policy = RedeliveryPolicy.activemq(redeliveryDelay=-100, useExponentialBackOff=True)
    assert ask(policy, 2, 0.0, 0) == 0
    assert ask(policy, 2, 0.0, 42) == 210
