"""Translates argument names in the library's errors to the options of the command line."""

from __future__ import annotations

import re

import click
from click.core import ParameterSource

NO_LIMIT = (", or None (or -1) for no limit", ", or None for no limit")
"""Phrases for no limit in Python; the options use `unlimited`."""


def with_options(text: str, ctx: click.Context) -> str:
    """The text of an error, with options in place of the arguments that it names.

    A name counts as an argument at the start of the text, in backticks, before an equals sign, or if it has
    an underscore. Elsewhere it may be an ordinary word, and stays.

    Args:
        ctx: the context of the command.
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
    """The options, by the Python arguments that they set. If two set the same one, the passed one counts."""
    shown = [one for one in ctx.command.params if isinstance(one, click.Option) and not one.hidden]
    passed = [one for one in shown if ctx.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE]
    return _clear(shown) | _clear(passed)


def _clear(options: list[click.Option]) -> dict[str, str]:
    """The arguments that exactly one of these options sets, each with that option."""
    found: dict[str, set[str]] = {}
    for one in options:
        option, name = one.opts[0], one.name or ""
        for argument in (option.strip("-").replace("-", "_"), name, name.rpartition("__")[2]):
            found.setdefault(argument, set()).add(option)
    return {argument: option for argument, (option, *others) in found.items() if not others}
