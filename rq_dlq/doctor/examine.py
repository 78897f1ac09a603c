"""All checks of the doctor, in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from rq_dlq._keys import QueueKeys
from rq_dlq._redis import FAIL_FAST
from rq_dlq._redis.retries import ONE_TRY
from rq_dlq.doctor.check import Check, of_all
from rq_dlq.doctor.facts import read_facts
from rq_dlq.doctor.names import names, repair
from rq_dlq.doctor.outboxes import outboxes
from rq_dlq.doctor.queues import breakers, calls_held, former, held_up, ignored, uncharged, unsent
from rq_dlq.doctor.standing import cluster, eviction, persistence, promise, replicas, role
from rq_dlq.doctor.trials import answers, clock, loaded, rights, round_trip, trial
from rq_dlq.doctor.versions import version
from rq_dlq.errors import RqDlqError

if TYPE_CHECKING:
    from rq_dlq._redis import Connections
    from rq_dlq.client.broker import Broker
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.doctor.facts import ServerFacts


def changing(facts: ServerFacts, settings: BrokerSettings) -> Iterator[Check]:
    """The checks whose results can change while a server runs."""
    wanted = settings.replicas if settings.durability == "replicated" else 0
    yield role(facts)
    if facts.info.get("cluster_enabled") == "1":
        yield cluster(facts)
    yield eviction(facts, required=settings.require_noeviction)
    yield persistence(facts)
    if settings.durability == "fsync":
        yield promise(facts, "fsync", 0)
    yield from replicas(facts, wanted)


def examine(broker: Broker, queue: str = "doctor", *, mends: bool = False) -> Iterator[Check]:
    """Run all checks, without permanent changes unless it mends.

    Args:
        broker: the server is checked for the durability of this broker; with "memory" the check lists the
            requirements of each profile.
        queue: the rights are checked for the keys of this queue, which is not changed.
        mends: make lists of names anew that hold something else.

    Raises:
        BrokerUnavailable: the server cannot be reached.
        BrokerRefused: the server rejects this user.
    """
    settings = broker.settings
    connections = broker._connect(FAIL_FAST, checked=False)
    try:
        connections.run(answers())
        yield Check("server", "ok", broker.url)
        by_node = connections.everywhere(read_facts)
        versions = [facts.version for facts in by_node.values()]
        connections.fit(min(versions))
        if any(facts.cluster.get("cluster_state") == "fail" for facts in by_node.values()):
            connections = connections.with_retries(ONE_TRY)  # not 5 s for each call to a slot without a node
        yield from of_all({node: [*_standing(facts, settings)] for node, facts in by_node.items()})
        yield from of_all(
            {
                node: [rights(master, QueueKeys(settings.namespace, queue)), *_measured(master)]
                for node, master in connections.masters().items()
            }
        )
        if mends and (mended := repair(connections, settings)):
            yield mended
        yield _tried(connections, settings)
        yield from _looked(connections, settings)
    finally:
        connections.close()


def _standing(facts: ServerFacts, settings: BrokerSettings) -> Iterator[Check]:
    yield version(facts)
    yield from changing(facts, settings)
    if settings.durability != "fsync":
        yield promise(facts, settings.durability, settings.replicas)


def _measured(connections: Connections) -> Iterator[Check]:
    for name, steps in (("clock", clock), ("round trip", round_trip)):
        try:
            yield connections.run(steps())
        except RqDlqError as error:
            yield Check(name, "warn", "not measured", str(error))


def _looked(connections: Connections, settings: BrokerSettings) -> Iterator[Check]:
    for name, steps in (
        ("names", names),
        ("breakers", breakers),
        ("keys", held_up),
        ("lanes", former),
        ("calls", calls_held),
        ("ignored", ignored),
        ("uncharged", uncharged),
        ("outboxes", outboxes),
        ("commits", unsent),
    ):
        try:
            yield connections.run(steps(settings))
        except RqDlqError as error:
            yield Check(name, "warn", "not checked", str(error))


def _tried(connections: Connections, settings: BrokerSettings) -> Check:
    verbs = connections.verbs
    with suppress(RqDlqError):  # the trial says what is wrong
        connections.everywhere(lambda: loaded(verbs))
    return connections.run(trial(settings, verbs))
