"""`rq-dlq doctor`: is this server fit to keep queues, and what would a crash cost?"""

from __future__ import annotations

import contextlib
import secrets
import statistics
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click
from rich.table import Table
from rich.text import Text

from rq_dlq._redis import Connections, masked
from rq_dlq._scripts import Scripts
from rq_dlq.broker import Broker
from rq_dlq.cli._context import FAILED, Command, Context, pass_context
from rq_dlq.cli._server import ask, remove, server_url
from rq_dlq.errors import BrokerRefused, RqDlqError
from rq_dlq.settings import OLDEST_SERVER, server_facts, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROUNDS = 20
SLOW = 0.010  # seconds of a round trip
APART = 1.0  # seconds between two clocks
State = Literal["ok", "warn", "fail"]
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and what to do about it."""

    name: str
    state: State
    found: str
    advice: str = ""


@click.command(cls=Command)
@pass_context
def doctor(context: Context) -> None:
    """Look whether the server is fit for queues, and say what to do where it is not."""
    url = server_url(context)
    checks: list[Check] = []
    with context.output.stderr.status("looking at the server"):
        checks += _checks(url)
    if context.output.format == "table":
        context.output.stdout.print(_table(checks))
    else:
        context.output.rows([asdict(check) for check in checks], (), "")
    if any(check.state == "fail" for check in checks):
        click.get_current_context().exit(FAILED)


def _table(checks: list[Check]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for check in checks:
        said = Text(check.found)
        if check.advice:
            said.append(f"\n→ {check.advice}", STYLES[check.state])
        table.add_row(Text(check.state, STYLES[check.state]), Text(check.name, "bold"), said)
    return table


def _checks(url: str) -> Iterator[Check]:
    connections = Connections(url, Scripts())
    try:
        connections.run(ask(b"PING"))
        yield Check("server reachable", "ok", masked(url))
        facts = connections.run(server_facts())
        yield _version(facts)
        yield _role(facts)
        yield _eviction(facts)
        yield _persistence(facts, _fsync(connections))
        yield _clock(connections)
        yield _round_trip(connections)
        yield _scripts(url, connections)
    except RqDlqError as error:
        yield Check("server reachable", "fail", str(error))
    finally:
        connections.close()


def _version(facts: Mapping[str, str]) -> Check:
    version = facts.get("redis_version", "")
    if not version:
        return Check("version", "warn", "the server does not tell", "let this user run INFO")
    oldest = ".".join(map(str, OLDEST_SERVER))
    name = facts.get("server_name", "redis")
    found = f"{name} {version}, {facts.get('redis_mode', 'standalone')}"
    if version_of(version) < OLDEST_SERVER:
        return Check("version", "fail", found, f"{oldest} is the oldest that has what queues need: upgrade")
    return Check("version", "ok", f"{found} (at least {oldest})")


def _role(facts: Mapping[str, str]) -> Check:
    role = facts.get("role", "master")
    if role != "master":
        where = f"{facts.get('master_host')}:{facts.get('master_port')}"
        return Check("role", "fail", "a replica, which takes no changes", f"use the master, {where}")
    replicas = int(facts.get("connected_slaves", "0"))
    return Check("role", "ok", f"master, {replicas} replica{'' if replicas == 1 else 's'}")


def _eviction(facts: Mapping[str, str]) -> Check:
    policy = facts.get("maxmemory_policy", "")
    limit = int(facts.get("maxmemory", "0"))
    memory = f"maxmemory {facts.get('maxmemory_human', '')}" if limit else "no maxmemory"
    if policy and policy != "noeviction":
        advice = "when memory is full it drops whole queues: redis-cli CONFIG SET maxmemory-policy noeviction"
        return Check("eviction", "fail", f"maxmemory-policy {policy}, {memory}", advice)
    return Check("eviction", "ok", f"maxmemory-policy {policy or 'unknown'}, {memory}")


def _fsync(connections: Connections) -> str:
    """How often the append-only file reaches the disk; empty where it may not be asked."""
    try:
        reply = connections.run(ask(b"CONFIG", b"GET", b"appendfsync"))
    except BrokerRefused:
        return ""
    return reply[1].decode() if len(reply) > 1 else ""


_LOSSES = {
    "always": "a crash loses nothing that was acknowledged",
    "everysec": "a crash of the machine may lose the last second or two",
    "no": "a crash of the machine may lose the last half minute",
}


def _persistence(facts: Mapping[str, str], fsync: str) -> Check:
    for name, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if facts.get(name, "ok") != "ok":
            advice = "see the server's log, and free the disk: until then it may refuse changes"
            return Check("persistence", "fail", f"the last write of the {what} failed", advice)
    if facts.get("aof_enabled") == "1":
        loss = _LOSSES.get(fsync, "what a crash may lose is up to appendfsync, which this user may not read")
        found = f"append-only file, fsync {fsync or 'unknown'}: {loss}"
        return Check("persistence", "ok" if fsync != "no" else "warn", found)
    if "aof_enabled" not in facts:
        return Check("persistence", "warn", "the server does not tell", "let this user run INFO")
    changes = facts.get("rdb_changes_since_last_save", "0")
    found = f"snapshots at best: a crash now loses the last {int(changes):,} changes"
    advice = "redis-cli CONFIG SET appendonly yes (and in its configuration file)"
    return Check("persistence", "warn", found, advice)


def _clock(connections: Connections) -> Check:
    begin = time.monotonic()
    seconds, micros = (int(part) for part in connections.run(ask(b"TIME")))
    half = (time.monotonic() - begin) / 2
    local = datetime.now(UTC).timestamp()  # noqa: TID251 - the very comparison of the two clocks
    apart = seconds + micros / 1e6 + half - local
    found = f"the server's clock is {abs(apart):.3f} s {'ahead of' if apart > 0 else 'behind'} this machine's"
    if abs(apart) < APART:
        return Check("clock", "ok", found)
    advice = "queues go by the server's clock alone and are right; set the wrong one all the same (NTP)"
    return Check("clock", "warn", found, advice)


def _round_trip(connections: Connections) -> Check:
    spans: list[float] = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        connections.run(ask(b"PING"))
        spans.append(time.monotonic() - begin)
    median = statistics.median(spans)
    found = f"{median * 1000:.2f} ms (median of {ROUNDS}), {max(spans) * 1000:.2f} ms at worst"
    if median < SLOW:
        return Check("round trip", "ok", found)
    advice = "claim and ack in batches, raise concurrency, or move the workers closer to the server"
    return Check("round trip", "warn", found, advice)


def _scripts(url: str, connections: Connections) -> Check:
    """Send, claim and ack in a namespace of our own, which is removed."""
    namespace = f"rq-dlq-doctor-{secrets.token_hex(4)}"
    begin = time.monotonic()
    try:
        with Broker(url, namespace=namespace, require_noeviction=False) as broker:
            queue = broker.queue("doctor")
            queue.send("well?")
            for delivery in queue.claim():
                delivery.ack()
            acked = queue.stats().totals.get("acked", 0)
        span = (time.monotonic() - begin) * 1000
        if acked != 1:
            return Check("scripts", "fail", "a message that was sent did not come back", "report this")
        return Check("scripts", "ok", f"loaded; sent, claimed and acked a message in {span:.1f} ms")
    except RqDlqError as error:
        return Check("scripts", "fail", str(error))
    finally:
        with contextlib.suppress(RqDlqError):  # one that takes no changes has nothing to remove
            remove(connections, namespace, "doctor")
