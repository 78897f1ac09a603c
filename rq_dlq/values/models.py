"""Bodies that msgspec does not support: pydantic models, recognized by their methods, without an import."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect

from rq_dlq.values.sent import Sent

KINDS = (
    "JSON values, bytes, a dataclass, an attrs class, a msgspec.Struct, a TypedDict or a pydantic model, "
    "with any type that msgspec supports inside (datetime, UUID, Decimal, Enum, list, …)"
)
_METHODS = ("__get_pydantic_core_schema__", "model_validate_json", "model_dump_json")
_WITH_FIELDS = ("__attrs_attrs__", "__dataclass_fields__", "__struct_fields__", "__total__", "_fields")
CONTAINERS = (dict, list, tuple, set, frozenset)
_PLAIN = frozenset({str, int, float, bool, type(None), bytes})


def is_model(kind: Any) -> bool:
    """Whether this is a pydantic model, or has the same methods."""
    return isinstance(kind, type) and all(hasattr(kind, name) for name in _METHODS)


def is_strange(kind: Any) -> bool:
    """Whether this type cannot be decoded."""
    found = msgspec.inspect.type_info(kind)
    return isinstance(found, msgspec.inspect.CustomType) and not (is_model(found.cls) or found.cls is object)


def lost_in(kind: Any) -> str:
    """The fields of a type, or of the classes of its fields, that would be lost; empty: none."""
    return next((lost for one in _classes(kind) if (lost := _lost_fields(one))), "")


lost_of: Callable[[Any], str] = lru_cache(maxsize=1024)(lost_in)
"""The same for a class, cached."""


def lost_inside(body: Any) -> str:
    """The fields of the attrs objects in a body that are missing in its JSON; empty: none.

    msgspec encodes attrs objects without a hook. If attrs was never imported, there are none, and the caller
    looks at that. The body has been encoded, so it contains no cycles.
    """
    try:
        marshal.dumps(body)  # the fastest check for a body with only plain values
    except ValueError:
        return next((lost for kind in _kinds_in(body) if (lost := _lost_of_attrs(kind))), "")
    return ""


def _kinds_in(body: Any) -> Iterator[type]:
    """The classes of the objects in a body."""
    level: list[Any] = [body]
    while level:
        value = level.pop()
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
        values: Iterable[Any] = value.values() if issubclass(kind, dict) else value
        if not issubclass(kind, CONTAINERS):
            yield kind
            values = _held(value, kind)
        level += (inner for inner in values if type(inner) not in _PLAIN)


def _held(value: Any, kind: Any) -> Sequence[Any]:
    """The field values of an object that msgspec encodes."""
    if hasattr(kind, "__struct_fields__"):
        return msgspec.structs.astuple(value)
    names: list[str] = [one.name for one in getattr(kind, "__attrs_attrs__", ())]
    names += getattr(kind, "__dataclass_fields__", [])
    return [getattr(value, name, None) for name in names]


def _lost_fields(kind: type) -> str:
    if is_model(kind):
        return _lost_of_model(kind)
    return _lost_of_attrs(kind)


@lru_cache(maxsize=1024)
def _lost_of_attrs(kind: type) -> str:
    hidden = [one.name for one in getattr(kind, "__attrs_attrs__", ()) if one.name.startswith("_")]
    them = "it" if len(hidden) == 1 else "them"
    return f"{_fields(hidden, kind)} would not be sent: rename {them} or use a dataclass" if hidden else ""


def _lost_of_model(kind: Any) -> str:
    """The fields that are missing in a model's JSON, except those that it excludes or serializes itself."""
    said: Any = getattr(kind, "__pydantic_decorators__", None)
    if getattr(said, "model_serializers", None):
        return ""
    served = {name for one in getattr(said, "field_serializers", {}).values() for name in one.info.fields}
    if "*" in served or getattr(kind, "model_config", {}).get("json_encoders"):
        return ""
    secret = [name for name, field in _fields_of(kind).items() if name not in served and _is_secret(field)]
    return (
        f"{_fields(secret, kind)} would arrive as '**********': send the secret's name, or its "
        "get_secret_value() in a field of type str"
        if secret
        else ""
    )


def _is_secret(field: Any) -> bool:
    if getattr(field, "exclude", None) or any(
        "Serializer" in type(one).__name__ for one in getattr(field, "metadata", ())
    ):
        return False
    return any(hasattr(one, "get_secret_value") for one in _mentioned(getattr(field, "annotation", None)))


def _fields(names: list[str], kind: type) -> str:
    return f"field{'s' if len(names) > 1 else ''} {', '.join(names)} of {kind.__name__}"


def _fields_of(model: Any) -> Mapping[str, Any]:
    fields: Any = getattr(model, "model_fields", None)
    return fields if isinstance(fields, Mapping) else {}  # pyright: ignore[reportUnknownVariableType]


def _classes(kind: Any) -> Iterator[type]:
    """The classes in a type, and the classes of their fields."""
    seen: set[type] = set()
    level = [*_mentioned(kind)]
    while level:
        one = level.pop()
        if one not in seen:
            seen.add(one)
            yield one
            level += [inner for hint in _hints(one) for inner in _mentioned(hint)]


def _mentioned(hint: Any) -> Iterator[type]:
    """The classes in an annotation."""
    plain = get_origin(hint) or hint
    if isinstance(plain, type):
        yield plain
    for inner in get_args(hint):
        yield from _mentioned(inner)


def _hints(kind: Any) -> Iterable[Any]:
    if is_model(kind):
        return [getattr(field, "annotation", None) for field in _fields_of(kind).values()]
    if not any(hasattr(kind, name) for name in _WITH_FIELDS):
        return ()
    try:
        return get_type_hints(kind).values()
    except Exception:  # noqa: BLE001 - an annotation may contain anything; msgspec checks it
        return ()


def encode(value: Any) -> msgspec.Raw | str:
    """The hook of an encoder: encodes a model by its own method, and an id returned by a send as text.

    Raises:
        TypeError: it is not a model, or fields would be lost in its JSON.
    """
    if is_model(type(value)):
        if lost := lost_of(type(value)):
            raise TypeError(lost)
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True).encode())
    if isinstance(value, Sent):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not supported; send {KINDS}")


def decode(kind: Any, value: Any) -> Any:
    """The hook of a decoder: makes a model that is a part of a body.

    Raises:
        TypeError: it is not a model.
        ValueError: the value does not fit.
    """
    if is_model(kind):
        return read(kind, msgspec.json.encode(value))
    if isinstance(value, kind):
        return value
    raise TypeError(f"{kind.__name__} is not supported; use {KINDS}")


def read(model: Any, data: bytes) -> Any:
    """Make a model from JSON.

    Raises:
        ValueError: the data does not fit; the error does not quote it.
    """
    try:
        return model.model_validate_json(data)
    except ValueError as error:
        raise ValueError(_problems(error)) from None


def _problems(error: ValueError) -> str:
    """The text of a pydantic error, without the input values."""
    errors: Any = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in found)
