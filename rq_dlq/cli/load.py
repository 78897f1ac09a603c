"""`rq-dlq load`: the library of this version on each server, and those of other versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rq_dlq._redis import FAIL_FAST
from rq_dlq._redis import libraries as on_servers
from rq_dlq._scripts import JOINED
from rq_dlq.cli import _show
from rq_dlq.cli._context import CliCommand, Context, pass_context
from rq_dlq.client.settings import server_facts, version_of
from rq_dlq.core.processes import processes
from rq_dlq.values.durations import human

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rq_dlq._redis import Connections
    from rq_dlq.core.steps.step import Steps

COLUMNS = (
    _show.Column("library", "bold"), _show.Column("server", wrap=True), _show.Column("size"),
    _show.Column("used"), _show.Column("done", "cyan"),
)  # fmt: skip


@click.command("load", cls=CliCommand)
@click.option("--prune", is_flag=True, help="Delete libraries that no process has reported for a day.")
@pass_context
def load(context: Context, *, prune: bool) -> None:
    """Load the library of this version into Redis, and list those of other versions.

    Redis runs the verbs of the queues as functions of this library. A program loads it when it needs it, if
    its user may. Where users may only call functions (`rq-dlq acl --functions-only`), run this before a new
    version is rolled out. In a cluster it is loaded into each master.

    A version has its own library, and each stays until it is deleted. `used` says when a worker or a
    maintenance process last reported it, within a day; programs that only send report nothing. One that is
    deleted too early is loaded again by the next caller with the right to.
    """
    with context.broker as broker:
        connections = broker._connect(FAIL_FAST)
        try:
            used = connections.run(processes.libraries(broker.settings.namespace))
            rows = [row for name, master in connections.masters().items()
                    for row in _of_master(name, master, used, context.output.say, prune=prune)]  # fmt: skip
            memory = connections.everywhere(_memory)
        finally:
            connections.close()
    if context.output.format == "table":
        for row in rows:
            row["size"] = f"{row['size'] / 1024:,.0f} KiB"
            row["used"] = "this version" if row["own"] else _ago(row["used"])
        for name, size in memory.items() if rows else ():
            context.output.say(f"all libraries take {size / 1024:,.0f} KiB of memory of {name}")
    context.output.rows(rows, COLUMNS, "no library is loaded")


def _of_master(
    server: str, master: Connections, used: dict[str, float], say: Callable[[str], None], *, prune: bool
) -> Iterator[dict[str, Any]]:
    """Load the library there, and the rows of all; of a server without functions, say that there is none."""
    own = JOINED.library.name
    version = master.run(server_facts()).get("redis_version", "")
    if () < version_of(version) < (7,):
        say(
            f"{server} is Redis {version}, which has no functions: programs run the verbs as a script there, "
            "and nothing has to be loaded"
        )
        return
    new = master.run(on_servers.load(JOINED.library))
    for name, size in sorted(master.run(on_servers.libraries()).items()):
        done = "loaded" if new and name == own else ""
        if prune and name != own and name not in used:
            master.run(on_servers.delete(name))
            done = "deleted"
        yield {"library": name, "server": server, "size": size, "own": name == own, "used": used.get(name),
               "done": done}  # fmt: skip


def _memory() -> Steps[int]:
    """The bytes that libraries take: their texts, and what Lua makes of them."""
    info = yield from server_facts()
    return sum(int(info.get(name, 0)) for name in ("used_memory_functions", "used_memory_vm_functions"))


def _ago(seconds: float | None) -> str:
    return "not within a day" if seconds is None else f"{human(round(seconds * 1000))} ago"
