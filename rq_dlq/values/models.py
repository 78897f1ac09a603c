"""Bodies that msgspec leaves to its user: pydantic models, recognized by their methods, without an import."""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.inspect

KINDS = (
    "JSON values, bytes, a dataclass, an attrs class, a msgspec.Struct, a TypedDict or a pydantic model, "
    "and what msgspec knows inside them (datetime, UUID, Decimal, Enum, list, …)"
)
_METHODS = ("__get_pydantic_core_schema__", "model_validate_json", "model_dump_json")


def is_model(kind: Any) -> bool:
    """Whether this is a pydantic model, or has the same methods."""
    return isinstance(kind, type) and all(hasattr(kind, name) for name in _METHODS)


def is_strange(kind: Any) -> bool:
    """Whether nothing can decode this type."""
    found = msgspec.inspect.type_info(kind)
    return isinstance(found, msgspec.inspect.CustomType) and not (is_model(found.cls) or found.cls is object)


def encode(value: Any) -> msgspec.Raw:
    """Encode a model by its own method; the hook of an encoder.

    Raises:
        TypeError: it is no model.
    """
    if is_model(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())
    raise TypeError(f"{type(value).__name__} is not known; send {KINDS}")


def decode(kind: Any, value: Any) -> Any:
    """Make a model that is a part of a body; the hook of a decoder.

    Raises:
        TypeError: it is no model.
        ValueError: the value does not fit.
    """
    if is_model(kind):
        return read(kind, msgspec.json.encode(value))
    if isinstance(value, kind):
        return value
    raise TypeError(f"{kind.__name__} is not known; use {KINDS}")


def read(model: Any, data: bytes) -> Any:
    """Make a model from JSON.

    Raises:
        ValueError: the data does not fit; the text has no part of the data.
    """
    try:
        return model.model_validate_json(data)
    except ValueError as error:
        raise ValueError(_problems(error)) from None


def _problems(error: ValueError) -> str:
    """The text of an error without the input that pydantic shows in it."""
    errors: Any = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in found)
