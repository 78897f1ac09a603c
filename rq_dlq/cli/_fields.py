"""The fields of a policy as options and in tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rq_dlq.policy.fields import BY_PART, TABLE, meant
from rq_dlq.policy.readable import as_read

if TYPE_CHECKING:
    from rq_dlq.cli._context import Context
    from rq_dlq.policy import Entry
    from rq_dlq.policy.fields import Field

F = TypeVar("F", bound="Callable[..., Any]")
ALL: Final = TABLE
REDELIVERY: Final = tuple(BY_PART["redelivery"].values())


def options(fields: Sequence[Field]) -> Callable[[F], F]:
    """An option for each of these fields."""

    def decorate(function: F) -> F:
        for field in reversed(fields):
            shown: dict[str, Any] = {"default": None} if field.kind == "flag" else {"metavar": field.kind}
            function = click.option(field.option, _parameter(field), help=field.help, **shown)(function)
        return function

    return decorate


def passed(fields: Sequence[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were passed, as arguments of `Entry.of`."""
    arguments: dict[str, Any] = {}
    for field in fields:
        typed = given.get(_parameter(field))
        if typed is not None:
            of_its_part = arguments.setdefault(field.part, {}) if field.part else arguments
            of_its_part[field.name] = _value(field, typed)
    return arguments


def shown(context: Context, where: str, value: Any) -> Any:
    """A field's value in Redis: readable text in a table, unchanged for programs."""
    return as_read(where, value) if context.output.format == "table" else value


def fields_of(entry: Entry) -> dict[str, Any]:
    """All fields of an entry, by names such as "redelivery.initial_delay", as stored in Redis."""
    return entry.fields() | ({"pinned": True} if entry.pinned else {})


def _parameter(field: Field) -> str:
    """The name of the field's parameter in click."""
    return field.where.replace(".", "__")


def _value(field: Field, typed: Any) -> Any:
    """The typed value, converted for `Entry.of`."""
    value = meant(field.where, typed)
    if value is None or not isinstance(value, str):
        return value
    if field.kind == "SPAN,SPAN,…":
        return [span for span in value.replace(",", " ").split() if span]
    if field.kind in {"NUMBER", "N"}:
        return _number(field, value)
    if field.kind == "BYTES" and value.isdecimal():
        return int(value)
    return value


def _number(field: Field, text: str) -> float:
    try:
        return int(text) if field.kind == "N" else float(text)
    except ValueError:
        whole = "whole " if field.kind == "N" else ""
        word = f" and not {field.none!r}" if field.none else ""
        raise click.UsageError(f"{field.option}: {text!r} is not a {whole}number{word}") from None
