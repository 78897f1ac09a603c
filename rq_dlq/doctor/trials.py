"""Checks by trial: the rights, the clock, a round trip, the scripts, and a message from send to ack."""

from __future__ import annotations

import secrets
import statistics
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rq_dlq import _keys
from rq_dlq._redis.loading import Functions, how
from rq_dlq._redis.role import missing_rights
from rq_dlq._redis.roles import ROLES
from rq_dlq.core.claiming import claim
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.sending import send
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.call import Command
from rq_dlq.doctor.check import Check, untold
from rq_dlq.errors import BrokerRefused, MissingRights, RqDlqError
from rq_dlq.values.leased import Leased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._redis import Connections
    from rq_dlq._scripts.verb import Verbs
    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.leased import Lease
    from rq_dlq.values.message import MessageRow

ROUNDS = 20
SLOW = 0.010  # the longest round trip without a warning, seconds
APART = 1.0  # seconds between two clocks


def rights(connections: Connections, keys: _keys.QueueKeys) -> Check:
    """The roles for which this user has all rights on a queue; no command is carried out."""
    lacking: dict[str, list[str]] = {}
    try:
        for name, role in ROLES.items():
            lacking[name] = connections.alone(missing_rights([role], keys, connections.verbs))
    except MissingRights as error:  # those to ask, which each role has
        return Check("rights", "fail", "no role", str(error))
    except RqDlqError as error:
        return Check("rights", "warn", "unknown: the server does not report them", str(error))
    granted = [name for name, rights in lacking.items() if not rights]
    refused = [f"not {name}: {_few(rights)} missing" for name, rights in lacking.items() if rights]
    found = "; ".join([", ".join(granted) or "no role", *refused])
    if granted:
        return Check("rights", "ok", found)
    advice = "`rq-dlq acl ROLE` prints the ACL line of a role for Redis"
    if any(all(right.startswith(("~", "&")) for right in rights) for rights in lacking.values()):
        advice += "; for a user of some queues only, name one of them: `rq-dlq doctor --queue NAME`"
    return Check("rights", "fail", found, advice)


def _few(rights: list[str], most: int = 5) -> str:
    more = len(rights) - most
    return " ".join(rights[:most]) + (f" and {more} more" if more > 0 else "")


def answers() -> Steps[None]:
    """Check that the server answers."""
    yield Command((b"PING",))


def clock() -> Steps[Check]:
    """Whether the server's clock agrees with this machine's, within the uncertainty of the round trip."""
    begin = time.monotonic()
    try:
        seconds, micros = yield Command((b"TIME",))
    except BrokerRefused:
        return untold("clock", "TIME")
    half = (time.monotonic() - begin) / 2
    local = datetime.now(UTC).timestamp()  # noqa: TID251 - the two clocks are compared
    apart = int(seconds) + int(micros) / 1e6 + half - local
    found = f"the server's clock is {abs(apart):.3f} s {'ahead of' if apart > 0 else 'behind'} this machine's"
    if abs(apart) - half < APART:
        return Check("clock", "ok", found)
    advice = (
        "queues use the server's clock alone, so they work correctly; correct the wrong clock (NTP) anyway"
    )
    return Check("clock", "warn", found, advice)


def round_trip() -> Steps[Check]:
    """How long the server takes to answer."""
    spans: list[float] = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        yield Command((b"PING",))
        spans.append(time.monotonic() - begin)
    median = statistics.median(spans)
    found = f"{median * 1000:.2f} ms (median of {ROUNDS}), {max(spans) * 1000:.2f} ms at worst"
    if median < SLOW:
        return Check("round trip", "ok", found)
    advice = "claim and ack in batches, raise concurrency, or move the workers closer to the server"
    return Check("round trip", "warn", found, advice)


def loaded(verbs: Verbs) -> Steps[None]:
    """Load all verbs into the server, if this user may: who may not can still call what others loaded."""
    for load in dict.fromkeys(verbs[name].load for name in verbs.names()):
        with suppress(BrokerRefused):  # also: it is there already
            yield Command(load)


def trial(settings: BrokerSettings, verbs: Verbs) -> Steps[Check]:
    """Send, claim and ack a message in a private namespace, and remove its keys."""
    private = replace(settings, namespace=f"{settings.namespace}:doctor-{secrets.token_hex(4)}")
    queue = private.queue("doctor", Any, "30s", {}, private._client())
    begin = time.monotonic()
    try:
        acked = yield from _there_and_back(queue)
    except MissingRights as error:
        return Check("scripts", "warn", "not tried", str(error))
    except RqDlqError as error:
        return Check("scripts", "fail", "a message could not be sent, claimed and acked", str(error))
    finally:
        with suppress(RqDlqError):  # a server that refuses changes has nothing to remove
            yield from _remove(queue)
    span = (time.monotonic() - begin) * 1000
    if acked != 1:
        return Check("scripts", "fail", "a sent message was not delivered", "report this as a bug")
    told = f"a message was sent, claimed and acked in {span:.1f} ms"
    found = f"{len(verbs.names())} verbs, {how(verbs)}; {told}"
    if not isinstance(verbs, Functions) or not verbs.reason:
        return Check("scripts", "ok", found)
    advice = (
        "load the library, as a user with the rights of maintenance: `rq-dlq load`; `rq-dlq acl ROLE` has "
        "the rights to call it"
    )
    return Check("scripts", "warn", found, advice)


def _there_and_back(queue: QueueState[Any]) -> Steps[int]:
    """Send, claim and ack; returns the number of acked messages."""
    options = send.send_options()
    yield from send.send_one(queue, "well?", None, options)

    def deliveries(rows: Sequence[MessageRow], lease: Lease[Any]) -> list[Leased[Any]]:
        return [Leased(row, lease) for row in rows]

    claimed = yield from claim.claim(queue, deliveries)
    yield from settle.ack(queue, [message._held for message in claimed])
    _, stats = yield queue_calls.stats(queue.keys, queue.name)
    return int(stats.totals.get("acked", 0))


def _remove(queue: QueueState[Any]) -> Steps[None]:
    """Remove all keys that were written."""
    keys = queue.keys
    register = queue.client.senders.lend(keys).keys["sender"]  # of the same sender: `send` has returned it
    yield Command((b"DEL", *keys.by_name.values(), keys.confirm, register))
    yield Command((b"DEL", _keys.queues(keys.namespace)))
