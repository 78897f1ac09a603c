"""The command line, `rq-dlq`: one module per command; `_context` has their common code.

People copy names and ids, so tables never break them or cut them off to make room for figures. A `Column`
(`_console`) says whether it gives way. In a list the last of these columns go first, and stand below the row,
each figure with its heading and only if it is not 0; a name that is still too long stands above its row, as
in `df`. `rq-dlq top` has one line for a row, so it leaves such columns out.

One table has the examples of `--help` (`_examples`), as one has the foreign names (`errors/words.py`): one
test runs all of them, in one order. Completion starts no server, and is silent where Redis does not answer.
Modules of commands are imported when they are first used, so Ctrl-C works from the start.
"""

from __future__ import annotations

import click

from rq_dlq.cli import _version
from rq_dlq.cli._context import Commands

SENTENCES = {
    "acl": "Print the ACL line of a role for Redis.",
    "audit": "List what operators did, with names and numbers of messages.",
    "bench": "Measure how fast queues are on a server.",
    "demo": "See it work: real flights, a service that fails, a worker that is killed.",
    "dlq": "Read, redrive and remove dead letters.",
    "doctor": "Check whether the server is fit for queues.",
    "error": "Explain an error: its cause, and what to do.",
    "gather": "Show gathers: messages that wait until others have ended.",
    "key": "Show the keys by which a queue orders or limits messages.",
    "load": "Load the library of this version into Redis, and list those of other versions.",
    "maintain": "Maintain the queues of the namespace.",
    "mcp": "Give an assistant read-only access to queues and dead letters.",
    "metrics": "Print metrics of all queues for Prometheus, or serve them.",
    "msg": "Read and manage messages, by their ids or by a condition.",
    "outbox": "Send what programs wrote to an outbox, a table of their database.",
    "peek": "Show the next messages of a queue, without claiming them.",
    "policy": "Set the policies of queues: redelivery, dead letters, expiry.",
    "queue": "Show, pause, empty and delete queues.",
    "schedule": "Send messages repeatedly, by cron or at intervals.",
    "send": "Send messages, one per line, from a file or from stdin.",
    "top": "Watch queues, dead letters and redrives live, the worst first.",
    "web": "Serve a page for operators: problems, since when, and redrives.",
    "worker": "Run the handlers of an app.",
}


@click.group(
    cls=Commands,
    rooms={"queue": "queues", "peek": "queues"},
    sentences=SENTENCES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_version.tell,
    help="Show the version and exit; after --url, or with $RQ_DLQ_URL, also how that server runs its verbs.",
)  # fmt: skip
def main() -> None:
    """Queues on Redis, with redelivery and dead letters done right.

    Without --url and $RQ_DLQ_URL it starts its own server. For a first look, run `rq-dlq demo`.

    Data go to stdout, messages for people to stderr. Exit codes: 0 ok, 1 failed, 2 usage or
    configuration, 3 broker unreachable or refusing, 4 stopped part-way.
    """
