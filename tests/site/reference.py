"""The reference: a page for each public class, settings, commands, errors and metrics, as the code says."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import click
from msgspec import UNSET

from rq_dlq import RedeliveryPolicy, _public, asyncio, errors
from rq_dlq.cli import main
from rq_dlq.cli._examples import EXAMPLES
from rq_dlq.client import dependency, dlq, key, policies
from rq_dlq.client.choosing import Conditions
from rq_dlq.core.looking.explain import Explanation
from rq_dlq.core.looking.overview import Overview
from rq_dlq.policy import Declared, ExpiryPolicy, IndividualDeadLetterStrategy
from rq_dlq.policy.arithmetic import Backoff
from rq_dlq.policy.fields import PARTS, TABLE, Field
from rq_dlq.policy.settings import EntryFields
from tests.site.pages import Page

RETURNED: Sequence[Any] = (
    dlq.DeadLetters,
    policies.Policies,
    key.Key,
    dependency.Dependency,
    dependency.DependencyOfAll,
    Explanation,
    Overview,
    Conditions,
    Declared,
    EntryFields,
)
"""What no program imports, and public names return or take."""
VALUES = {"policy": "Policies of queues", "values": "Messages, counts and reports", "errors": "Errors"}
"""The pages of names that share one, by their rooms."""


INNER: Mapping[str, Sequence[str]] = {
    "": (
        "add_note", "as_wire", "at_capacity", "cells", "clamp", "confirm", "family_of", "from_wire",
        "mark_for", "named", "of", "page", "resolve", "spent", "wire",
    ),
    "BrokerSettings": ("check_server", "queue"),
}  # fmt: skip
"""Verbs of public values that only the package calls, of any class and of one: no page has them."""


def names() -> dict[str, type]:
    """The public names, and what they return."""
    public = {name: getattr(_public, name) for name in _public.__all__}
    return public | {one.__name__: one for one in RETURNED}


def page_of(name: str, found: type) -> str:
    """The path of the page that has a name."""
    room = found.__module__.split(".")[1]
    if room == "client" and found is not Conditions:
        return f"reference/{name.lower()}.md"
    return f"reference/{room if room in VALUES else 'values'}.md"


def pages() -> list[Page]:
    """The pages of the reference, in the order of the navigation."""
    found: dict[str, Page] = {}
    for name, one in names().items():
        path = page_of(name, one)
        room = path.removeprefix("reference/").removesuffix(".md")
        title = VALUES.get(room, name)
        about = "every name" if room in VALUES else _first(one)
        found[path] = Page(title, path, about)
    classes = sorted(found.values(), key=lambda page: (page.title in VALUES.values(), page.title))
    return [
        *classes,
        Page("asyncio", "reference/asyncio.md", "the same names, to be awaited"),
        Page("Settings of queues", "reference/settings.md", "every setting, with its option and its default"),
        Page("Commands", "reference/commands.md", "every command of `rq-dlq`, with its options"),
        Page("Metrics", "reference/metrics.md", "every metric for Prometheus"),
    ]


def texts() -> Mapping[str, str]:
    """The texts of the pages by their paths."""
    made: dict[str, list[str]] = {}
    for name, one in sorted(names().items()):
        made.setdefault(page_of(name, one), []).append(_entry(name, one))
    shared = {f"reference/{room}.md": f"# {title}\n\n" for room, title in VALUES.items()}
    made["reference/errors.md"].insert(0, _tree(errors))
    return {
        **{path: shared.get(path, "") + "\n".join(entries) for path, entries in made.items()},
        "reference/asyncio.md": _asyncio(),
        "reference/settings.md": _settings(),
        "reference/commands.md": _commands(),
        "reference/metrics.md": _metrics(),
    }


def _entry(name: str, one: type) -> str:
    """For mkdocstrings: the class under its public name, where it has a page of its own as its title."""
    public = name in _public.__all__
    path = f"rq_dlq.{name}" if public else f"{one.__module__}.{name}"
    alone = page_of(name, one) == f"reference/{name.lower()}.md"
    inner = "|".join(["_.*", *INNER[""], *INNER.get(name, ())])
    return (
        f"::: {path}\n    options:\n      heading_level: {1 if alone else 2}\n"
        f"      merge_init_into_class: {str(is_made(one)).lower()}\n      filters: ['!^({inner})$']\n"
    )


def is_made(one: type) -> bool:
    """Whether programs make one, and not only get it: its docstring has the arguments."""
    return "Args:" in (one.__doc__ or "")


def _first(one: Any) -> str:
    """The first sentence of a docstring, in the middle of a line."""
    return inspect.getdoc(one).partition("\n")[0].removesuffix(".")  # type: ignore[union-attr]


def _tree(module: ModuleType) -> str:
    """The tree of errors, as its module draws it."""
    _, *tree, last = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    drawn = textwrap.dedent("\n\n".join(tree))
    return f"```text\n{drawn}\n```\n\n{last}\n"


def _asyncio() -> str:
    rows = "\n".join(
        f"- [`{name}`]({page_of(name, names()[name]).removeprefix('reference/')})" for name in asyncio.__all__
    )
    return (
        "# asyncio\n\n`rq_dlq.asyncio` has the same names, with the same arguments, to be awaited: "
        "`await queue.send(…)`, `async for delivery in queue.consume()`, `async with queue.session()`.\n\n"
        f"{rows}\n\nAll other names (policies, messages, errors) are those of `rq_dlq`.\n"
    )


def _settings() -> str:
    head = (
        "# Settings of queues\n\nA program sets them in code, `broker.queue(name, "
        "redelivery=RedeliveryPolicy(…), rate=…)`. Operators set them for patterns of names, by "
        "`broker.policies.set` or by `rq-dlq policy set` with these options. A change takes effect at once. "
        "[Policies of many queues](../guide.md#policies-of-many-queues) says which setting wins.\n\n"
        "A `SPAN` is a duration: `500ms`, `30s`, `1m30s`, `7d`. The settings of a broker are those of "
        "[`BrokerSettings`](brokersettings.md).\n"
    )
    parts = [head]
    for part in (*PARTS, ""):
        rows = "".join(
            f"| `{field.name}` | {_codes(field.option)} | {_codes(field.kind)} | {_default(field)} "
            f"| {_cell(field.help)} |\n"
            for field in TABLE
            if field.part == part
        )
        head = "| setting | option | value | default | what it is |\n|---|---|---|---|---|\n"
        parts.append(f"## {part or 'Others'}\n\n{head}{rows}")
    return "\n".join(parts)


def _default(field: Field) -> str:
    """The default, as a user writes it."""
    value: Any = field.default
    if value is UNSET:
        parts = {
            "redelivery": RedeliveryPolicy(),
            "expiry": ExpiryPolicy(),
            "dead_letter": IndividualDeadLetterStrategy(),
        }
        value = getattr(parts.get(field.part), field.name, UNSET)
    if isinstance(value, Backoff):
        value = value.NAME
    if value is UNSET or value == "":
        return ""
    if value is None:
        return f"`{field.none}`"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{value:g} s`" if field.in_ms and isinstance(value, int | float) else f"`{value}`"


def _commands() -> str:
    head = (
        "# Commands\n\nThe options of `rq-dlq` itself may stand anywhere behind the command, too. The shell "
        "completes commands, options, queues, groups and ids after "
        '`eval "$(_RQ_DLQ_COMPLETE=bash_source rq-dlq)"` in '
        "`~/.bashrc` (`zsh_source` in `~/.zshrc`); for names it asks the Redis of `$RQ_DLQ_URL` or `--url`.\n"
    )
    parts = [head]
    parts += [_command(path, command) for path, command in commands(main, ("rq-dlq",))]
    return "\n".join(parts)


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


def _command(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=path[-1])
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    records = [one.get_help_record(context) for one in command.get_params(context)]
    rows = "".join(f"| {_codes(option)} | {_cell(text)} |\n" for option, text in filter(None, records))
    level = "#" * min(2 + (len(path) > 2), 3)
    text = inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")
    words = " ".join(path[1:])
    example = " ".join(filter(None, ("rq-dlq", words, EXAMPLES.get(words))))
    table = f"| option | |\n|---|---|\n{rows}" if rows else ""
    return (
        f"{level} {' '.join(path)}\n\n```text\n{usage}\n```\n\n{text}\n\n{table}\n"
        f"For example:\n\n```sh\n{example}\n```\n"
    )


def _metrics() -> str:
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra

    from rq_dlq.telemetry._queues import families  # noqa: PLC0415
    from rq_dlq.telemetry.metrics import NOTHING, WorkerMetrics  # noqa: PLC0415

    registry = CollectorRegistry()
    WorkerMetrics(registry)
    groups = {"All queues": families(NOTHING), "The handlers of a worker": registry.collect()}
    head = (
        "# Metrics\n\n[Metrics and alerts](../metrics.md) says where they are served, and what to do when an "
        "alert fires.\n"
    )
    parts = [head]
    for title, found in groups.items():
        rows = "".join(
            f"| `{one.name}{'_total' if one.type == 'counter' else ''}` | {one.type} "
            f"| {_cell(one.documentation)} |\n"
            for one in found
        )
        parts.append(f"## {title}\n\n| metric | type | what it is |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def _codes(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
