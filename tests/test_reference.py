"""Every public name, parameter, setting, command, error and metric has its place in the reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import pytest

from rq_dlq import _public, asyncio, errors
from rq_dlq.cli import main
from rq_dlq.policy.fields import TABLE
from rq_dlq.telemetry._queues import COUNTERS, GAUGES
from tests.checkout import ROOT
from tests.site import pages, reference
from tests.tables import each_row

NAMES = sorted(reference.names().items())
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]+\S.*\n?|\n)+)", re.MULTILINE)
NAMED = re.compile(r"^    ([\w, *]+):", re.MULTILINE)
WITHOUT = {"None", "Self", "NoReturn"}
"""What needs no word: what is returned is nothing, or the object itself."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    pytest.importorskip("prometheus_client")
    return {**reference.texts()}


def test_every_public_name_is_on_a_page(texts: dict[str, str]) -> None:
    directives = {line.split()[1] for text in texts.values() for line in text.splitlines() if ":::" in line}
    assert {f"rq_dlq.{name}" for name in _public.__all__} <= directives
    assert set(asyncio.__all__) <= {name for name, _ in NAMES}
    assert {
        one for one in vars(errors).values() if inspect.isclass(one) and one.__module__ == errors.__name__
    } <= {one for _, one in NAMES}
    assert {page.path for page in reference.pages()} == texts.keys()


def test_every_setting_command_and_metric_is_on_a_page(texts: dict[str, str]) -> None:
    settings, said = texts["reference/settings.md"], texts["reference/commands.md"]
    for field in TABLE:
        assert f"| `{field.name}` | `{field.option}` |" in settings
    for path, command in reference.commands(main, ("rq-dlq",)):
        assert re.search(rf"^#+ {' '.join(path)}$", said, re.MULTILINE)
        for option in command.params:
            assert (
                getattr(option, "hidden", False)
                or option.human_readable_name in said
                or option.opts[0] in said
            )
    for name in [*GAUGES, *(f"rq_dlq_{event}_total" for event in COUNTERS), "rq_dlq_handling_seconds"]:
        assert f"| `{name}` |" in texts["reference/metrics.md"]
        assert f"`{name}`" in pages.written()["metrics.md"]


def test_every_page_is_in_the_list() -> None:
    listed = {page.path for chapter in pages.listed().values() for page in chapter}
    assert listed | {"index.md", "pages.md"} == {pages.moved(source) for source in pages.sources()}
    for page in listed:
        assert (ROOT / "docs" / page).exists() or page in pages.MOVED.values()


@each_row("name, one", NAMES)
def test_every_parameter_and_field_is_explained(name: str, one: Any) -> None:
    """With its unit and default, which nobody but a reader can check; Returns, too."""
    lacks = [*_fields(one)]
    for verb, function in _verbs(one):
        text = inspect.getdoc(function) or ""
        signature = inspect.signature(function)
        lacks += [
            f"{verb}({each})" for each in signature.parameters if each not in {"self", "cls"} | _said(text)
        ]
        returned = signature.return_annotation
        if (
            returned is not signature.empty
            and returned not in WITHOUT
            and not re.search(r"^(Returns|Yields):", text, re.MULTILINE)
        ):
            lacks.append(f"{verb}: what it returns")
    assert not lacks, f"{name} lacks {', '.join(lacks)}"


def _said(text: str) -> set[str]:
    """The names that a docstring explains."""
    return {
        name.strip(" *")
        for section in SECTION.findall(f"{inspect.cleandoc(text)}\n")
        for names in NAMED.findall(section)
        for name in names.split(",")
    }


def _fields(one: Any) -> Iterator[str]:
    """Those of a value, and the arguments of what programs make, that nothing explains."""
    said = {name for base in one.__mro__ for name in _said(base.__doc__ or "")}
    if issubclass(one, msgspec.Struct):
        wanted = {*one.__struct_fields__}
    elif is_dataclass(one):
        wanted = {field.name for field in fields(one) if not field.name.startswith("_")}
    elif reference.is_made(one):
        wanted = {*inspect.signature(one).parameters}
    else:
        wanted = set()
    yield from sorted(wanted - said)


def _verbs(one: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Its public verbs, but for those of Python and of other packages."""
    for name, found in inspect.getmembers(one):
        function = inspect.unwrap(getattr(found, "__func__", found)) if callable(found) else None
        inner = (
            name.startswith("_")
            or name in reference.INNER.get(one.__name__, ())
            or name in reference.INNER[""]
        )
        if inspect.isfunction(function) and function.__module__.startswith("rq_dlq") and not inner:
            yield name, function
