"""The messages that a program accepts: the tasks of a queue with their signatures, or one type of body.

Programs of two versions may share a queue. Each reports the signatures it accepts, each with a mark. A
program that passes a message on adds its mark to the message, so that only programs with another mark claim
it (the verb `pass_on`).
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

TASK = "task"
"""The header that names the task of a message."""
BODIES = ""
"""In place of a task's name: this program accepts any message with a fitting body."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Signature(msgspec.Struct, frozen=True, array_like=True):
    """The signature accepted under one name.

    Attributes:
        text: readable text: the parameters of a task, without their defaults; or the type of the bodies.
        mark: eight hexadecimal digits that differ if other arguments or bodies are accepted.
    """

    text: str
    mark: str


Taken: TypeAlias = Mapping[str, Signature]
"""Signatures by the name of a task, or `BODIES`."""


def under(taken: Taken, task: str) -> Signature | None:
    """The signature that a message of this task must fit; None: the task is unknown here."""
    return taken.get(task) or taken.get(BODIES)


def of_bodies(kind: Any, max_bytes: int, version: str) -> Signature:
    """The signature of a type of bodies.

    Args:
        max_bytes: the largest size of a body.
        version: the program's version, since the program may check more than the type.
    """
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    return Signature(_without_addresses(text), _mark([_schema(kind), max_bytes, version]))


def of_parameters(sent: inspect.Signature, max_bytes: int, version: str) -> Signature:
    """The signature of a task's parameters, with types as their annotations."""
    parameters = sent.parameters.values()
    facts = [
        (one.name, one.kind.name, one.default is one.empty, _schema(one.annotation)) for one in parameters
    ]
    text = str(inspect.Signature([_with_dots(one) for one in parameters]))
    return Signature(_without_addresses(text), _mark([facts, max_bytes, version]))


def _with_dots(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter if parameter.default is parameter.empty else parameter.replace(default=_Dots())


class _Dots:
    """Shown in place of a default, which may be a secret."""

    def __repr__(self) -> str:
        return "…"


def _mark(facts: Iterable[object]) -> str:
    return hashlib.sha256(msgspec.json.encode([*facts])).hexdigest()[:8]


def _schema(kind: Any) -> str:
    """The JSON schema of a type, or its name if it has no schema."""
    try:
        schema = msgspec.json.schema(kind, schema_hook=_model_schema)
        return msgspec.json.encode(schema, order="deterministic").decode()
    except Exception:  # noqa: BLE001 - hooks of the type may raise anything
        return _without_addresses(str(kind))


def _model_schema(model: Any) -> Any:
    return model.model_json_schema()  # of pydantic; other types have none


def _without_addresses(text: str) -> str:
    """Text without memory addresses, so that it is the same in each process."""
    return _ADDRESS.sub("", text)
