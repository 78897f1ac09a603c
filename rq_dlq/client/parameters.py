"""What can be read of the function of a handler or a task: is it async, and what do its parameters take?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from rq_dlq.errors import ConfigurationError
from rq_dlq.values.durations import shown
from rq_dlq.values.leased import Leased

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def annotations_of(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter], what: str
) -> Mapping[str, Any]:
    """The types that these parameters of a function are annotated with.

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
    """Whether a call of a function has to be awaited; also of a partial, or of an object with `__call__`.

    Args:
        what: it is to be.

    Raises:
        ConfigurationError: it has a `yield`, so that a call would run nothing of it.
    """
    what_runs = called(function)
    if inspect.isgeneratorfunction(what_runs) or inspect.isasyncgenfunction(what_runs):
        message = f"{shown(function)} cannot be {what}: leave out the `yield`, since a call would run nothing"
        raise ConfigurationError(message)
    return inspect.iscoroutinefunction(what_runs)


def called(function: object) -> Any:
    """What runs when a partial, or an object with `__call__`, is called; else the function."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.iscoroutinefunction(function):  # as an AsyncMock is
        return function
    return getattr(type(function), "__call__", None)  # noqa: B004 - as Python looks it up


def is_delivery(kind: Any) -> bool:
    """Whether a type is that of deliveries, or one of several that it allows."""
    parts = [get_origin(part) or part for part in (kind, *get_args(kind))]
    return any(isinstance(part, type) and issubclass(part, Leased) for part in parts)


def takes_delivery(function: object) -> bool:
    """Whether a handler takes the delivery as its second argument.

    Raises:
        ConfigurationError: it cannot be called with a body, or nobody can see what it takes.
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
    """Whether the parameter in the second place is for the delivery, and not an option with a default."""
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
        unknown: what to say if the annotation cannot be evaluated yet, or only for a type checker.
    """
    try:
        kind = annotations_of(function, [parameter], "a handler").get(parameter.name)
    except Exception:  # noqa: BLE001 - an annotation may say anything; the worker reads that of the body
        return unknown
    return is_delivery(kind)
