"""`rq-dlq error`: the pages of errors, which are the docstrings of their classes."""

from __future__ import annotations

import inspect

import click

from rq_dlq import errors
from rq_dlq.cli import _show
from rq_dlq.cli._context import USAGE, CliCommand, CommandFailed, Context, pass_context

PAGES = {
    name: inspect.getdoc(found) or ""
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.RqDlqError)
}
ERRORS = (_show.Column("error", "bold"), _show.Column("meaning", wrap=True))


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    return [name for name in PAGES if name.startswith(incomplete)]


@click.command("error", cls=CliCommand)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=_names)
@pass_context
def error(context: Context, name: str | None) -> None:
    """Explain an error: its cause, and what to do.

    NAME is the class of the error, as a traceback has it. Without NAME it lists all errors.
    """
    if name is None:
        rows = [{"error": each, "meaning": text.partition("\n")[0]} for each, text in PAGES.items()]
        context.output.rows(rows, ERRORS, "")
        return
    short = name.rpartition(".")[2]
    if short not in PAGES:
        raise CommandFailed(f"there is no error {name!r}: `rq-dlq error` lists all", USAGE)
    context.output.either(f"{short}\n\n{PAGES[short]}", {"error": short, "page": PAGES[short]})
