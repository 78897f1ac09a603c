"""Policies of every arithmetic, drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from rq_dlq.policy import RedeliveryPolicy
from rq_dlq.values.durations import TEN_YEARS

EXACT = 2**53
"""Milliseconds up to which doubles are exact, so the most that Lua can be asked for."""

n = st.one_of(st.integers(1, 20), st.integers(1, 5_000))
r = st.floats(-1, 1, exclude_max=True)
factor = st.one_of(st.sampled_from([0.0, 0.15, 0.5, 1.0]), st.floats(0, 1))
multiplier = st.one_of(st.sampled_from([1.0, 1.5, 2.0, 10.0]), st.floats(1, 4), st.floats(1, 1e300))
limit = st.one_of(st.none(), st.integers(0, 1_000))
span = st.one_of(st.integers(0, 100_000), st.integers(0, TEN_YEARS))
long = st.one_of(st.integers(0, 100_000), st.integers(0, EXACT))


@st.composite
def growing(draw: st.DrawFn) -> RedeliveryPolicy:
    """Native, with waits that grow."""
    initial, longest = sorted((draw(span), draw(span)))
    return RedeliveryPolicy(
        initial_delay=initial / 1000,
        multiplier=draw(multiplier),
        max_delay=draw(st.sampled_from([None, longest / 1000])),
        collision_avoidance=draw(factor),
        max_redeliveries=draw(limit),
    )


@st.composite
def listed(draw: st.DrawFn) -> RedeliveryPolicy:
    """Native, with waits one by one."""
    delays = draw(st.lists(span, min_size=1, max_size=20))
    return RedeliveryPolicy(
        delays=[ms / 1000 for ms in delays],
        collision_avoidance=draw(factor),
        max_redeliveries=draw(limit),
    )


@st.composite
def artemis(draw: st.DrawFn) -> RedeliveryPolicy:
    """Artemis'."""
    delay, longest = sorted((draw(long), draw(long)))
    attempts = draw(limit)
    settings = {
        "redelivery-delay": delay,
        "redelivery-delay-multiplier": draw(multiplier),
        "max-redelivery-delay": draw(st.sampled_from([None, longest])),
        "redelivery-collision-avoidance-factor": draw(factor),
        "max-delivery-attempts": -1 if attempts is None else attempts + 1,
    }
    return RedeliveryPolicy.artemis(**settings)


@st.composite
def activemq(draw: st.DrawFn) -> RedeliveryPolicy:
    """Classic's."""
    delay, longest = sorted((draw(long), draw(long)))
    redeliveries = draw(limit)
    return RedeliveryPolicy.activemq(
        initialRedeliveryDelay=draw(long),
        redeliveryDelay=delay,
        maximumRedeliveryDelay=draw(st.sampled_from([-1, longest])),
        backOffMultiplier=draw(multiplier),
        useExponentialBackOff=draw(st.booleans()),
        useCollisionAvoidance=draw(st.booleans()),
        collisionAvoidanceFactor=draw(factor),
        maximumRedeliveries=-1 if redeliveries is None else redeliveries,
    )


native = st.one_of(growing(), listed())
every = st.one_of(growing(), listed(), artemis(), activemq())
