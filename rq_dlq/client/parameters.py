"""Inspects the function of a handler or a task: whether it is async, and its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from rq_dlq.errors import ConfigurationError
from rq_dlq.values.durations import shown
from rq_dlq.values.leased import Leased

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def annotations_of(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter], what: str
) -> Mapping[str, Any]:
    """The annotated types of these parameters of a function.

    Raises:
        ConfigurationError: an annotation cannot be evaluated.
    """
    annotations = {one.name: one.annotation for one in parameters if one.annotation is not one.empty}
    plain: Any = inspect.unwrap(function)
    while isinstance(plain, partial):
        plain = plain.func
    names = getattr(plain if hasattr(plain, "__globals__") else plain.__call__, "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__=annotations), names, include_extras=True)
    except (NameError, AttributeError) as error:
        message = (
            f"an annotation of {what}: {error}; define it at the top level of the module, and import it "
            "outside of `if TYPE_CHECKING`"
        )
        raise ConfigurationError(message) from None


def is_async(function: object, what: str) -> bool:
    """Whether a call returns an awaitable, for a function, a partial, or an object with `__call__`.

    Args:
        what: its role, for the error.

    Raises:
        ConfigurationError: it has a `yield`, so a call would not run its body.
    """
    what_runs = called(function)
    if inspect.isgeneratorfunction(what_runs) or inspect.isasyncgenfunction(what_runs):
        message = (
            f"{shown(function)} cannot be {what}: remove the `yield`, since a call would not run the body"
        )
        raise ConfigurationError(message)
    return inspect.iscoroutinefunction(what_runs)


def called(function: object) -> Any:
    """The function that runs when a partial, an object with `__call__`, or the function itself is called."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.iscoroutinefunction(function):  # such as an AsyncMock
        return function
    return getattr(type(function), "__call__", None)  # noqa: B004 - as Python looks it up


def is_delivery(kind: Any) -> bool:
    """Whether a type is a delivery class, or a union that includes one."""
    parts = [get_origin(part) or part for part in (kind, *get_args(kind))]
    return any(isinstance(part, type) and issubclass(part, Leased) for part in parts)


def takes_self(function: object) -> bool:
    """Whether this is a method in the body of its class, where `self` or `cls` could not be passed."""
    if isinstance(function, classmethod):
        return True
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not outer or outer.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name == "self" and first.annotation is first.empty


def names_taken(function: Callable[..., Any], names: Iterable[str]) -> dict[str, bool]:
    """Which of these arguments a function takes by their names, and whether it needs them.

    Empty: it takes others, or by place alone.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions in C
        return {}
    kinds = {one.kind for one in parameters}
    named = {one.name: one.default is one.empty for one in parameters if one.kind is not one.VAR_KEYWORD}
    if kinds & {*_BY_PLACE} or not named.keys() <= {*names}:
        return {}
    return dict.fromkeys(names, False) | named if inspect.Parameter.VAR_KEYWORD in kinds else named


def takes_delivery(function: object) -> bool:
    """Whether a handler takes the delivery as its second argument.

    Raises:
        ConfigurationError: it cannot be called with a body, or its signature is unclear.
    """
    if not callable(function):
        message = f"{shown(function)} cannot be a handler: pass a function of (body) or (body, delivery)"
        raise ConfigurationError(message)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    places = [one for one in signature.parameters.values() if one.kind in _POSITIONAL]
    if places and _is_annotated(function, places[0]):
        message = f"{shown(function)} cannot be a handler: the delivery is the second parameter"
        raise ConfigurationError(f"{message}, after the body, as in (body, delivery)")
    if _binds(signature, "body", "delivery"):
        return _is_for_delivery(function, places[:2][-1])
    if not _binds(signature, "body"):
        message = f"{function!r} cannot be a handler: a handler takes (body) or (body, delivery)"
        raise ConfigurationError(message)
    return False


def _binds(signature: inspect.Signature, *arguments: str) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _is_for_delivery(function: Callable[..., Any], second: inspect.Parameter) -> bool:
    """Whether the second parameter is for the delivery, and not an option with a default."""
    if second.kind is second.VAR_POSITIONAL:
        if _is_plain(function):
            raise ConfigurationError(
                f"{function!r} cannot be a handler: *{second.name} does not show whether it takes the "
                "delivery; write out its parameters, (body) or (body, delivery), and put "
                "functools.wraps(function) on what a decorator returns"
            )
        return True
    if second.default is second.empty or second.name == "delivery":
        return True
    return _is_annotated(function, second, unknown="Delivery" in str(second.annotation))


def _is_plain(function: object) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.isfunction(function) or inspect.ismethod(function)


def _is_annotated(
    function: Callable[..., Any], parameter: inspect.Parameter, *, unknown: bool = False
) -> bool:
    """Whether a parameter is annotated as a delivery.

    Args:
        unknown: the answer if the annotation cannot be evaluated yet, or only by a type checker.
    """
    try:
        kind = annotations_of(function, [parameter], "a handler").get(parameter.name)
    except Exception:  # noqa: BLE001 - an annotation may say anything; the worker reads that of the body
        return unknown
    return is_delivery(kind)
