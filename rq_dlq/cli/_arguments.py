"""The arguments that an error of the library names, by the options that they were passed with."""

from __future__ import annotations

import re

import click
from click.core import ParameterSource

NO_LIMIT = (", or None (or -1) for no limit", ", or None for no limit")
"""What Python passes for no limit; an option takes `unlimited`."""


def with_options(text: str, ctx: click.Context) -> str:
    """The text of an error, with options in place of the arguments that it names.

    A name is surely an argument where the text begins with it, where it stands in backticks or before an
    equals sign, or if it has an underscore. Elsewhere it is a word.

    Args:
        ctx: of the command.
    """
    options = _by_argument(ctx)
    if not options:
        return text
    for advice in NO_LIMIT:
        text = text.replace(advice, ", or unlimited")
    any_of, long = "|".join(options), "|".join([name for name in options if "_" in name] or ["(?!)"])
    named = re.compile(
        rf"\A({any_of})(?=[ :])"
        rf"|`({any_of})`"
        rf"|(?<![\w.'\"-])({any_of})(?==)(?:=True\b)?"
        rf"|(?<![\w.'\"-])({long})(?![\w'\"-]|\.\w)"
    )
    return named.sub(lambda found: options[found[found.lastindex or 0]], text)


def _by_argument(ctx: click.Context) -> dict[str, str]:
    """The options by the argument that each is in Python. Of two for the same one that which was passed."""
    shown = [one for one in ctx.command.params if isinstance(one, click.Option) and not one.hidden]
    passed = [one for one in shown if ctx.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE]
    return _clear(shown) | _clear(passed)


def _clear(options: list[click.Option]) -> dict[str, str]:
    """The arguments that are only one of these options."""
    found: dict[str, set[str]] = {}
    for one in options:
        option, name = one.opts[0], one.name or ""
        for argument in (option.strip("-").replace("-", "_"), name, name.rpartition("__")[2]):
            found.setdefault(argument, set()).add(option)
    return {argument: option for argument, (option, *others) in found.items() if not others}
