"""T19: whatever a server says instead of doing what was asked: it is told what to do, and nothing is lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import yaml

import rq_dlq
from rq_dlq import BrokerRefused, BrokerUnavailable
from rq_dlq._redis import Retries
from rq_dlq.client.settings import version_of
from tests.audit import audit
from tests.behaviour.helpers import AT_ONCE
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, free_port, wait_until
from tests.servers.counts import BY
from tests.verbs import Kind

TABLE = Path(__file__).parents[1] / "data" / "server_errors.yaml"
BRIEFLY = Retries(attempts=3, seconds=0.3)
VERBS = ("send", "claim", "ack", "nack", "redrive", "stats")
_ALIKE = "a call like those of the other kinds: what a server says instead does not depend on the script"
WITHOUT: dict[Kind, str] = {
    "session": _ALIKE,
    "batch": _ALIKE,
    "job": _ALIKE,
    "configure": _ALIKE,
    "upkeep": "maintenance tries again, and tells nobody",
}
"""The kinds of verbs that are not tried, and why."""
KINDS = {"unavailable": BrokerUnavailable, "refused": BrokerRefused}
SLOTS = 16_384
TOGETHER = 5  # servers in trouble at a time
ENDLESS = "while true do end"
CLUSTERED = ("--cluster-enabled", "yes")
LEFT = {"ready": 5, "leased": 1}


@dataclass
class Bench:
    """A server that is to get into trouble, and a queue with messages in every state.

    Args:
        options: of the server.
    """

    directory: Path
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.server = Server(self.directory, *self.options, port=cluster_port())
        self.other = Server(self.directory / "other", *self.options, port=cluster_port())

    def open(self) -> None:
        """Fill the queue: two held, two dead, two waiting."""
        self.server.start()
        self.raw = self.server.client()
        if self.options:
            self.raw.execute_command("CLUSTER", "ADDSLOTS", *range(SLOTS))
            wait_until(lambda: b"cluster_state:ok" in self.raw.execute_command("CLUSTER", "INFO"))
        self.broker = rq_dlq.Broker(f"redis://127.0.0.1:{self.server.port}", retries=BRIEFLY)
        self.queue = self.broker.queue("a", redelivery=AT_ONCE)
        self.queue.send_many(range(6))
        self.queue.poison(self.queue.claim(2), "told so")
        self.held = self.queue.claim(2)

    def hang_up(self) -> None:
        """Close the connections, and give back nothing, as `Broker.close` does."""
        if self.broker._connections is not None:
            self.broker._connections.close()

    def do(self, verb: str) -> object:
        """Say a verb; what it came to."""
        acked, nacked = self.held
        verbs: dict[str, Callable[[], object]] = {
            "send": lambda: self.queue.send("new", id="new"),
            "claim": lambda: len(self.queue.claim(1)),
            "ack": lambda: bool(acked.ack()),
            "nack": lambda: bool(nacked.nack("boom")),
            "redrive": lambda: self.queue.dlq.redrive(all=True).counts.moved,
            "stats": lambda: self.queue.stats().name,
        }
        return verbs[verb]()


def cluster_port() -> int:
    """A free port that leaves room for the one of the cluster's bus, which is 10,000 higher."""
    while (port := free_port()) > 55_000:
        pass
    return port


CAME_TO = {"send": "new", "claim": 1, "ack": True, "nack": True, "redrive": 2, "stats": "a"}


# How each is brought about, and ended; nothing here is a mere imitation


@contextlib.contextmanager
def unwritable_disk(bench: Bench) -> Iterator[None]:
    """Its snapshot fails: in place of the file there is a folder."""
    bench.raw.config_set("save", "3600 1")
    folder = bench.directory / "dump.rdb"
    folder.mkdir()
    bench.raw.bgsave()
    wait_until(lambda: bench.raw.info("persistence")["rdb_last_bgsave_status"] == "err")
    yield
    folder.rmdir()
    bench.raw.bgsave()
    wait_until(lambda: bench.raw.info("persistence")["rdb_last_bgsave_status"] == "ok")


@contextlib.contextmanager
def demoted(bench: Bench) -> Iterator[None]:
    """It becomes a replica, of a master that does not answer."""
    bench.raw.replicaof("127.0.0.1", str(free_port()))
    yield
    bench.raw.replicaof("NO", "ONE")


@contextlib.contextmanager
def loading(bench: Bench) -> Iterator[None]:
    """It starts anew, and reads its snapshot slowly; it looks at its clients every two megabytes."""
    for n in range(60):
        bench.raw.set(f"ballast:{n}", "x" * 2_100_000)
    bench.raw.config_set("rdbcompression", "no")
    bench.raw.save()
    bench.hang_up()  # else the first call does not know whether it was heard
    bench.server.kill()
    bench.server = Server(bench.directory, "--key-load-delay", "100000", port=bench.server.port)
    bench.server.start(wait=False)
    bench.raw = bench.server.client(retry=None)
    wait_until(lambda: is_loading(bench.raw))
    yield
    with contextlib.suppress(redis.ResponseError):  # before Redis 7 it has to be waited for
        bench.raw.config_set("key-load-delay", "0")
    wait_until(lambda: not is_loading(bench.raw))


def is_loading(raw: Any) -> bool:
    try:
        return bool(raw.info("persistence")["loading"])
    except redis.ConnectionError:
        return False


@contextlib.contextmanager
def busy(bench: Bench) -> Iterator[None]:
    """Somebody's script does not end."""
    bench.raw.config_set("lua-time-limit", 1)

    def run() -> None:
        with contextlib.suppress(redis.RedisError):
            bench.server.client().eval(ENDLESS, 0)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: said(bench.raw.ping, "BUSY"))
    yield
    bench.raw.script_kill()
    thread.join()


def said(call: Callable[[], object], what: str) -> bool:
    try:
        call()
    except redis.RedisError as error:
        return what.lower() in str(error).lower()
    return False


@contextlib.contextmanager
def no_replicas(bench: Bench) -> Iterator[None]:
    """It wants a replica that it does not have."""
    bench.raw.config_set("min-replicas-to-write", 1)
    yield
    bench.raw.config_set("min-replicas-to-write", 0)


@contextlib.contextmanager
def no_slot(bench: Bench) -> Iterator[None]:
    """The queue's slot is nobody's."""
    slot = bench.raw.execute_command("CLUSTER", "KEYSLOT", "{a}")
    bench.raw.execute_command("CLUSTER", "DELSLOTS", slot)
    wait_until(lambda: b"cluster_state:fail" in bench.raw.execute_command("CLUSTER", "INFO"))
    yield
    bench.raw.execute_command("CLUSTER", "ADDSLOTS", slot)
    wait_until(lambda: b"cluster_state:ok" in bench.raw.execute_command("CLUSTER", "INFO"))


@contextlib.contextmanager
def full(bench: Bench) -> Iterator[None]:
    """Its memory is full."""
    bench.raw.config_set("maxmemory", 1)
    yield
    bench.raw.config_set("maxmemory", 0)


@contextlib.contextmanager
def no_right(bench: Bench) -> Iterator[None]:
    """The user may run no verb any more, in any way."""
    known = bench.raw.command()
    ways = [word for name in BY if (word := name.removeprefix("cmdstat_")) in known]
    bench.raw.acl_setuser("default", commands=[f"-{word}" for word in ways])
    yield
    bench.raw.acl_setuser("default", commands=[f"+{word}" for word in ways])


@contextlib.contextmanager
def no_client_more(bench: Bench) -> Iterator[None]:
    """It takes no more connections than there are."""
    bench.hang_up()
    bench.raw.config_set("maxclients", 1)
    yield
    bench.raw.config_set("maxclients", 100)


@contextlib.contextmanager
def moved(bench: Bench) -> Iterator[None]:
    """The queue's slot moves to another node of the cluster; there it stays."""
    bench.other.start()
    there, slot = bench.other.client(), bench.raw.execute_command("CLUSTER", "KEYSLOT", "{a}")
    here_id, there_id = (node.execute_command("CLUSTER", "MYID") for node in (bench.raw, there))
    bench.raw.execute_command("CLUSTER", "MEET", "127.0.0.1", bench.other.port)
    wait_until(lambda: here_id in there.execute_command("CLUSTER", "NODES"))
    wait_until(lambda: b"cluster_state:ok" in there.execute_command("CLUSTER", "INFO"))
    there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", here_id)
    bench.raw.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", there_id)
    keys = bench.raw.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
    bench.raw.execute_command("MIGRATE", "127.0.0.1", bench.other.port, "", 0, 5_000, "KEYS", *keys)
    for node in (there, bench.raw):
        node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", there_id)
    bench.raw = there
    yield


PROVOKE: dict[str, Callable[[Bench], contextlib.AbstractContextManager[None]]] = {
    "unwritable_disk": unwritable_disk,
    "demoted": demoted,
    "loading": loading,
    "busy": busy,
    "no_replicas": no_replicas,
    "no_slot": no_slot,
    "full": full,
    "moved": moved,
    "no_right": no_right,
    "no_client_more": no_client_more,
}


def try_error(entry: dict[str, Any], directory: Path) -> tuple[int, list[str]]:
    """Bring one error about, and say each verb meanwhile and, where it failed, afterwards.

    Returns:
        How many verbs met what they had to, and what was wrong.
    """
    options = CLUSTERED if entry["provoke"] in {"no_slot", "moved"} else ()
    bench = Bench(directory / entry["error"], options)
    wrong: list[str] = []
    met = 0
    try:
        bench.open()
        old = version_of(bench.raw.info("server")["redis_version"]) < (7,)
        meets = entry["meets"] | (entry.get("before_7", {}) if old else {})
        with PROVOKE[entry["provoke"]](bench):
            meanwhile = {verb: outcome(bench, verb) for verb in VERBS}
        for verb, ended in meanwhile.items():
            expected = meets.get(verb, meets["others"])
            faults = [*judged(ended, expected, entry["advice"], verb)]
            if isinstance(ended, BrokerUnavailable) and ended.indeterminate:
                faults.append(f"{verb} was refused, and is reported as perhaps done")
            if isinstance(ended, Exception):
                faults += judged(outcome(bench, verb), "works", "", f"{verb}, when it is over,")
            met += not faults
            wrong += faults
        counts = dict(audit(bench.raw, "a"))
        if counts != LEFT:
            wrong.append(f"left: {counts}, not {LEFT}")
    finally:
        bench.server.kill()
        bench.other.kill()
    return met, [f"{entry['error']}: {fault}" for fault in wrong]


def outcome(bench: Bench, verb: str) -> object:
    """What a verb came to, or the error that it ended with."""
    try:
        return bench.do(verb)
    except Exception as error:  # noqa: BLE001 - to be judged
        return error


def judged(ended: object, expected: str, advice: str, verb: str) -> Iterator[str]:
    """What is wrong with how a verb ended."""
    if expected == "works":
        if ended != CAME_TO[verb.partition(",")[0]]:
            yield f"{verb} came to {ended!r}"
        return
    kinds = [name for name, kind in KINDS.items() if isinstance(ended, kind)]
    if kinds != [expected]:
        yield f"{verb} was not {expected}: {ended!r}"
    elif advice.lower() not in str(ended).lower():
        yield f"{verb} does not speak of {advice!r}: {ended}"


def run(run: Run) -> Figures:
    """Bring about every error of the table, some at a time."""
    table = yaml.safe_load(TABLE.read_text())
    met, wrong = 0, list[str]()
    with ThreadPoolExecutor(TOGETHER) as threads:
        tried = threads.map(lambda entry: try_error(entry, run.directory), table)
        for number, (well, faults) in enumerate(tried, start=1):
            run.done(number, len(table), f"{number * len(VERBS)} cells")
            met += well
            wrong += faults
    trials = len(table) * len(VERBS)
    return Figures(
        trials=trials,
        met=met == trials and not wrong,
        note="; ".join(wrong)
        or f"{met} of {trials}: typed, with advice, over with the trouble, sums as before",
    )


ROWS = (
    Row(
        "T19",
        "10 errors of servers, provoked on real ones: send, claim, ack, nack, redrive, stats",
        "typed, retryable or final, with advice: 60 of 60",
        run,
    ),
)
