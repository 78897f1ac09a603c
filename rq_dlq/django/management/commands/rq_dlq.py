"""`manage.py rq_dlq …`: the command line, with the broker of the project."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from rq_dlq.cli import main
from rq_dlq.cli._context import USAGE, CommandFailed, Context
from rq_dlq.django.setting import of_broker
from rq_dlq.errors import ConfigurationError

APP = "rq_dlq.django.worker:broker"


class Command(BaseCommand):
    """Hands its words to `rq-dlq`; `worker` needs no MODULE:BROKER."""

    help = "Runs a command of rq-dlq, such as worker or dlq ls, with the broker of RQ_DLQ in the settings."

    def add_arguments(self, parser: CommandParser) -> None:
        """For `call_command`."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def run_from_argv(self, argv: list[str]) -> None:
        """Leave all options to `rq-dlq` but for two of Django, which has heeded them by now."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--settings")
        parser.add_argument("--pythonpath")
        self.handle(words=parser.parse_known_args(argv[2:])[1])

    def handle(self, *_: Any, words: list[str], **__: Any) -> None:
        """Run it."""
        try:
            settings = of_broker()
        except ConfigurationError as error:
            CommandFailed(str(error), USAGE, error).show()
            sys.exit(USAGE)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # for the processes of a worker
        try:
            main(
                words,
                prog_name="manage.py rq_dlq",
                obj=Context(settings=settings),
                default_map={"worker": {"app": APP}},
            )
        finally:
            connections.close_all()
