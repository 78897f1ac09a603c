"""What can be done to a queue: how often, and with what."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rq_dlq.policy import RedeliveryPolicy
from tests.model.driver import LIVE, PLACES
from tests.model.queue_settings import Settings

IDS = [f"m{number}" for number in range(6)]

# Few values, so that times meet often.
spans = st.sampled_from([0, 1, 500, 1_000, 3_000])
seldom = st.sampled_from([0, 0, 0, 0, 500, 3_000])
charged = st.sampled_from([True, True, False])
leases = st.sampled_from([500, 1_000, 30_000])
seeds = st.sampled_from([0.0, 0.25, 0.5, 0.987654321])
lost = st.sampled_from([False, False, True])
limits = st.sampled_from([1, 2, 3, 100])
places = st.integers(0, len(IDS) - 1)
whose = st.sampled_from(["current"] * 6 + ["stale", "nobody's"])
item = st.tuples(places, whose)
items = st.lists(item, min_size=1, max_size=4)
some_ids = st.lists(st.sampled_from(IDS), max_size=4)
waiting = st.sampled_from(LIVE)
sources = st.sampled_from([*PLACES, "dead", "dead"])
sent = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from([4, 4, 0, 9])), min_size=1, max_size=4)
graves = st.sampled_from(["dead", "expired"])

policies = st.sampled_from(
    [
        RedeliveryPolicy(initial_delay=1, max_redeliveries=2),
        RedeliveryPolicy(initial_delay=1, max_redeliveries=None, collision_avoidance=0),
        RedeliveryPolicy(delays=[0, 0.5, 1], max_redeliveries=4),
        RedeliveryPolicy(max_redeliveries=0),
        RedeliveryPolicy.activemq(
            maximumRedeliveries=3, useExponentialBackOff=True, useCollisionAvoidance=True
        ),
        RedeliveryPolicy.artemis(**{"redelivery-delay": 500, "max-delivery-attempts": 3}),
    ]
)
times = st.sampled_from([None, None, None, 1, 500, 3_000])
WINDOW = 600_000
HALF = WINDOW // 2
windows = st.sampled_from([None, WINDOW, WINDOW])  # longer than a test: Redis' own clock is not moved
strategies = st.sampled_from(["expired", "expired", "dead", "dead", "discard"])  # of the expired
any_settings = st.builds(
    Settings,
    policy=policies,
    dead=st.sampled_from(["keep", "keep", "keep", "discard"]),
    expired=strategies,
    transient=st.sampled_from(["keep", "discard"]),
    dead_for=times,
    expired_for=times,
    never=st.sampled_from([False, False, False, True]),
    ttl=times,
    least=times,
    most=st.sampled_from([None, None, 3_000]),
    max_in_flight=st.sampled_from([None, None, 1, 2, 4]),
    outcomes=st.sampled_from([None, 1_000, 1_000]),
    dedup_window=windows,
)

Keying = tuple[str, dict[str, str]]  # the rule for keys, and the keys by the ids
KEY_OF = {"m0": "a", "m1": "a", "m2": "a", "m3": "b", "m5": "b"}
keyings = st.sampled_from(
    [
        *[("", dict[str, str]())] * 3,
        ("", KEY_OF),
        *[("order", KEY_OF)] * 2,
        *[("order hold", KEY_OF)] * 2,
        ("limit 2", KEY_OF),
    ]
)
batches = st.integers(1, 3)
notes = st.sampled_from(["done", "half"])
runs = st.sampled_from(["one", "two"])
SPANS = (1_000, 500, 3_000, 500, 1, 250, 400_000, 400_000, -1, -500, -1_000)  # milliseconds

# What can be done: how often, and with what.
ACTIONS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "claim": (
        6,
        {
            "part": st.sampled_from(["live"] * 4 + ["dead", "dead", "expired"]), "count": st.integers(1, 4),
            "lease": leases, "seed": seeds, "patience": st.sampled_from([0, 1_000]), "woken": st.booleans(),
            "alarmed": st.booleans(), "suspects": st.sampled_from(["all", "alone", "none"]), "lost": lost,
            "thorough": st.booleans(),
        },
    ),
    "nack": (6, {"items": items, "delay": st.none() | spans, "charge": charged, "seed": seeds, "lost": lost}),
    "step_clock": (6, {"span": st.sampled_from(SPANS)}),
    "sweep": (3, {"limit": limits, "seed": seeds}),
    "release": (3, {"items": items, "begun": charged, "lost": lost}),
    "pass_on": (
        2,
        {
            "items": items, "mark": st.sampled_from(["", "0a", "0b"]),
            "takers": st.lists(st.sampled_from(["0a", "0b", "?"]), max_size=2), "lost": lost,
        },
    ),
    "poison": (
        2,
        {
            "items": items, "reason": st.sampled_from(["poison", "unprocessable"]), "seed": seeds,
            "lost": lost,
        },
    ),
    "extend": (2, {"items": items, "lease": leases, "only_later": st.booleans(), "lost": lost}),
    "claim_again": (2, {"place": places, "lease": leases}),
    "redrive": (3, {"place": graves, "chosen": some_ids, "limit": limits, "age": spans, "lost": lost}),
    "ack": (2, {"items": items, "lost": lost}),
    "ack_claim": (1, {"item": item, "lost": lost}),
    "divide_claim": (3, {"item": item, "keep": st.integers(0, 3), "lost": lost}),
    "extend_claims": (1, {"items": items, "lease": leases, "lost": lost}),
    "repeat_late": (1, {"which": st.integers(0, 20)}),
    "ack_all": (3, {"items": items, "lost": lost}),
    "repeat_numbered": (3, {"which": st.integers(-3, 20)}),
    "commit": (
        2,
        {
            "items": items, "own": sent, "others": sent, "delay": seldom, "ttl": seldom,
            "strict": st.booleans(), "lost": lost,
        },
    ),
    "commit_job": (1, {"items": sent, "delay": seldom, "ttl": seldom, "kept": charged, "lost": lost}),
    "move_staged": (2, {"limit": limits, "early": charged}),
    "begin_batch": (1, {"batch": batches, "run": runs, "lost": lost}),
    "note_batch": (1, {"name": notes, "batch": batches, "run": runs, "lost": lost}),
    "promote": (1, {"limit": limits}),
    "expire": (1, {"limit": limits}),
    "purge": (1, {"place": st.sampled_from(PLACES), "chosen": some_ids, "limit": limits}),
    "send": (2, {"items": sent, "delay": seldom, "ttl": seldom, "persistent": charged}),
    "resend": (
        6,
        {
            "items": sent, "mode": st.sampled_from(["replace", "debounce", "redrive", "again", "again"]),
            "delay": spans, "ttl": seldom, "body": st.sampled_from([b"y", b"z" * 3_000]),
        },
    ),
    "configure": (2, {"settings": any_settings}),
    "cancel": (
        2,
        {
            "place": st.sampled_from(["leased", "leased", "ready", "scheduled", "dead"]),
            "chosen": st.sampled_from(IDS),
        },
    ),
    "dead_letter": (2, {"place": st.sampled_from(["ready", "scheduled", "expired"]), "chosen": some_ids}),
    "expire_now": (1, {"place": waiting, "chosen": some_ids}),
    "deliver_now": (2, {"chosen": some_ids}),
    "prioritize": (2, {"place": waiting, "chosen": some_ids, "priority": st.sampled_from([0, 4, 9])}),
    "transfer": (2, {"place": sources, "chosen": some_ids, "keep": st.booleans()}),
    "purge_other": (2, {}),
    "pause": (1, {"paused": charged}),
    "retire": (1, {"limit": limits}),
    "regroup": (1, {"limit": st.integers(1, 20), "lost_rows": st.booleans()}),
    "reindex": (1, {"limit": st.integers(1, 20)}),
    "groups": (1, {"limit": st.integers(1, 9)}),
    "reset": (1, {}),
}  # fmt: skip
NUMBERS = st.integers(0, 9_999)  # more even than a choice of few, which hypothesis likes to repeat
SETTLING = {
    "claim_again", "ack", "nack", "poison", "release", "pass_on", "extend", "ack_claim",
    "divide_claim", "extend_claims", "ack_all",
}  # fmt: skip
