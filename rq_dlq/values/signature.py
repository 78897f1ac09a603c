"""What a program takes: the tasks of a queue with their signatures, or bodies of a type.

Programs of two versions may work on one queue. Each reports what it takes, with a mark. Who passes a message
on leaves its mark there, so whoever has another one may take it (lua/pass_on.lua).
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
"""In place of a task's name: this program takes any message by its body."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Signature(msgspec.Struct, frozen=True, array_like=True):
    """What is taken under one name.

    Attributes:
        text: for people: the parameters of a task, without their defaults; or the type of the bodies.
        mark: eight hexadecimal digits, others where other arguments or bodies may be taken.
    """

    text: str
    mark: str


Taken: TypeAlias = Mapping[str, Signature]
"""By the name of a task, or `BODIES`."""


def under(taken: Taken, task: str) -> Signature | None:
    """The signature that a message of this task has to fit; None: it is not known here."""
    return taken.get(task) or taken.get(BODIES)


def of_bodies(kind: Any, max_bytes: int, version: str) -> Signature:
    """That of a type of bodies.

    Args:
        max_bytes: that a body may have.
        version: of the program, which may check more than the type says.
    """
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    return Signature(_without_addresses(text), _mark([_schema(kind), max_bytes, version]))


def of_parameters(sent: inspect.Signature, max_bytes: int, version: str) -> Signature:
    """That of the parameters of a task, with types as their annotations."""
    parameters = sent.parameters.values()
    facts = [
        (one.name, one.kind.name, one.default is one.empty, _schema(one.annotation)) for one in parameters
    ]
    text = str(inspect.Signature([_with_dots(one) for one in parameters]))
    return Signature(_without_addresses(text), _mark([facts, max_bytes, version]))


def _with_dots(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter if parameter.default is parameter.empty else parameter.replace(default=_Dots())


class _Dots:
    """Stands for a default, which may be a secret."""

    def __repr__(self) -> str:
        return "…"


def _mark(facts: Iterable[object]) -> str:
    return hashlib.sha256(msgspec.json.encode([*facts])).hexdigest()[:8]


def _schema(kind: Any) -> str:
    """The JSON schema of a type; or what it is called, where none can be made."""
    try:
        schema = msgspec.json.schema(kind, schema_hook=_model_schema)
        return msgspec.json.encode(schema, order="deterministic").decode()
    except Exception:  # noqa: BLE001 - hooks of the type may raise anything
        return _without_addresses(str(kind))


def _model_schema(model: Any) -> Any:
    return model.model_json_schema()  # of pydantic; anything else has none


def _without_addresses(text: str) -> str:
    """Text that is the same in each process."""
    return _ADDRESS.sub("", text)
