"""The command line, `rq-dlq`: one file per verb or noun; `_context` has what they share."""

from __future__ import annotations

import click

from rq_dlq import __version__
from rq_dlq.cli._context import Commands
from rq_dlq.cli.acl import acl
from rq_dlq.cli.demo import demo
from rq_dlq.cli.dlq import dlq
from rq_dlq.cli.doctor import doctor
from rq_dlq.cli.maintain import maintain
from rq_dlq.cli.msg import msg
from rq_dlq.cli.policy import policy
from rq_dlq.cli.queues import peek, queue
from rq_dlq.cli.schedule import schedule
from rq_dlq.cli.send import send
from rq_dlq.cli.worker import worker


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Queues on Redis, with redelivery and dead letters done right.

    Without --url and $RQ_DLQ_URL it starts its own server. For a first look, run `rq-dlq demo`.

    Data go to stdout, messages for people to stderr. Exit codes: 0 ok, 1 failed, 2 usage or
    configuration, 3 broker unreachable, 4 stopped part-way.
    """


for command in (demo, doctor, worker, maintain, send, peek, queue, schedule, msg, dlq, policy, acl):
    main.add_command(command)
