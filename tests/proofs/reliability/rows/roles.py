"""T42: the users of all roles, each limited to some queues, try what is not their job."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

from redis import exceptions

import rq_dlq
from rq_dlq import RedeliveryPolicy, _keys
from rq_dlq._keys import QueueKeys
from rq_dlq._redis.acl import CHANGES, acl_line
from rq_dlq._redis.proof import FORMS
from rq_dlq._redis.roles import ROLES
from rq_dlq._scripts import JOINED
from tests.contents import contents
from tests.proofs.reliability.findings import first
from tests.proofs.reliability.row import Figures, Row, Run
from tests.servers import Server, programs
from tests.servers.acl import reads_apart

NAMESPACE, OURS, OTHERS = "rq", "orders", "bills"
OF_THE_SERVER = (
    "FLUSHALL", "FLUSHDB", "KEYS *", "SCAN 0", "CONFIG GET *", "CONFIG SET maxmemory 1", "ACL LIST",
    "ACL SETUSER joe +@all", "ACL GETUSER default", "SCRIPT FLUSH", "SCRIPT KILL", "FUNCTION FLUSH",
    "FUNCTION DUMP", "FUNCTION RESTORE x", "FUNCTION KILL",
    "SHUTDOWN", "MONITOR", "CLIENT LIST", "CLIENT KILL TYPE normal", "REPLICAOF NO ONE", "SAVE",
    "PUBLISH a b", "MODULE LIST", "SWAPDB 0 1", "LATENCY RESET",
)  # fmt: skip
BOTH = (JOINED, JOINED.as_form("flags"))
ANOTHER = "#!lua name=another\nredis.register_function('another', function() end)\n"
"""A library of somebody else's."""


def modern() -> str | None:
    """A server that knows keys for reading only; None: there is none here."""
    for program in programs():
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        if reads_apart(said.partition(" v=")[2]):
            return str(program)
    return None


def tried(role: str, loaded: str) -> Iterator[tuple[Any, ...]]:
    """What a user of OURS in a role must not do."""
    yield from (tuple(command.split()) for command in OF_THE_SERVER)
    ours, others = QueueKeys(NAMESPACE, OURS), QueueKeys(NAMESPACE, OTHERS)
    forms = {name: arguments for name, arguments in FORMS.items() if name != b"TIME"}
    for key in others.by_name.values():
        yield from ((name, key, *arguments) for name, arguments in forms.items())
        yield from (("RENAME", key, f"{key}2"), ("DUMP", key), ("COPY", ours["messages"], key))
        yield from runs("ack", key)
    writes = {name: arguments for name, arguments in forms.items() if name in CHANGES}
    if role != "maintenance":
        policies = _keys.policies(NAMESPACE)
        yield from ((name, policies, *arguments) for name, arguments in writes.items())
        yield ("EVALSHA", loaded, 1, ours["settings"], policies)
        yield from runs("set_policy", policies, "orders", "{}", "any")
        yield ("FUNCTION", "LOAD", ANOTHER)
    if role == "read-only":
        yield from ((name, key, *of) for key in ours.by_name.values() for name, of in writes.items())
        shared = (_keys.queues, _keys.aliases, _keys.processes)
        yield from ((name, key(NAMESPACE), *of) for key in shared for name, of in writes.items())


def runs(verb: str, key: str, *arguments: str) -> Iterator[tuple[Any, ...]]:
    """A verb on one key, as a function and as a script."""
    for verbs in BOTH:
        script = verbs[verb]
        yield (script.word, script.sha, 1, key, *arguments, *script.tail)


def refused(client: Any, command: tuple[Any, ...]) -> bool:
    """Whether the server refuses a command for want of rights."""
    try:
        client.execute_command(*command)
    except exceptions.NoPermissionError:
        return True
    except exceptions.ResponseError as error:
        return re.search("executing the script can't|ACL failure in script", str(error)) is not None
    return False


def does_its_job(broker: rq_dlq.Broker, role: str) -> None:
    """Do what the role is for, on OURS."""
    queue = broker.queue(OURS)
    if role == "producer":
        queue.send("x")
    elif role == "consumer":
        for delivery in queue.claim():
            delivery.ack()
    elif role == "maintenance":
        queue.maintain()
        queue.pause()
        queue.resume()
    queue.stats()


def run(run: Run) -> Figures:
    """Let each try all of it, then look whether anything has changed."""
    trials, wrong = 0, list[str]()
    with Server(run.directory, program=modern()) as server, server.client() as admin:
        with rq_dlq.Broker(server.url) as broker:
            broker.policies.set("#", redelivery=RedeliveryPolicy(max_redeliveries=3))
            for name in (OURS, OTHERS):
                broker.queue(name).send_many(range(5))  # loads the library
                broker.queue(name).claim()[0].poison("bad")
        for verb in ("ack", "set_policy"):
            admin.execute_command(*BOTH[1][verb].load)
        for number, role in enumerate(ROLES):
            loaded = admin.script_load("return redis.call('HSET', ARGV[1], 'bills', '{}')")
            rules = acl_line(ROLES[role], role, NAMESPACE, f"{OURS}*").split()[2:]
            admin.execute_command("ACL", "SETUSER", role, "reset", ">secret", *rules)
            for key in admin.scan_iter():
                admin.persist(key)  # nothing goes by itself
            before = contents(admin)
            with server.client(username=role, password="secret") as client:  # noqa: S106 - of the row
                for command in tried(role, loaded):
                    trials += 1
                    if not refused(client, command):
                        wrong.append(f"{role} may {' '.join(map(str, command[:2]))}")
            if contents(admin) != before:
                wrong.append(f"{role} has changed something")
            with rq_dlq.Broker(f"unix://{role}:secret@{server.socket}") as broker:
                try:
                    does_its_job(broker, role)
                except rq_dlq.RqDlqError as error:
                    wrong.append(f"{role} cannot do its job: {error}")
            run.done(number, len(ROLES), role)
    told = "".join(f"; {what}" for what in first(wrong))
    return Figures(trials=trials, met=not wrong, note=f"{len(ROLES)} roles of one queue of two{told}")


def missing() -> str:
    """Why it cannot be run here."""
    return "" if modern() else "Redis 7 is not here: 6.2 has no keys for reading only"


ROWS = (
    Row(
        "T42",
        "users of each role, for some queues: policies, other queues, the server; what read-only may write",
        "all refused, nothing changed, and the role can do its job",
        run,
        missing=missing,
    ),
)
