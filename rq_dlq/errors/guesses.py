"""Errors for names from other queue libraries, with the advice to use ours: for programs that change over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import getattr_static, iscoroutinefunction, isfunction, signature, unwrap
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

from rq_dlq.errors.words import ARGUMENTS, ARGUMENTS_OF, ATTRIBUTES

F = TypeVar("F", bound="Callable[..., Any]")
K = TypeVar("K", bound=type)


def sentence_for(names: Iterable[object], function: str = "") -> str:
    """The answer for the first of these names that is another library's; empty: none is."""
    known = {**ARGUMENTS, **ARGUMENTS_OF.get(function, {})}
    return next((known[name] for name in names if isinstance(name, str) and name in known), "")


def refuse(verb: Callable[..., object], unknown: Iterable[str]) -> NoReturn:
    """Raise Python's error for arguments that a verb does not have, with the answer for them.

    Verbs that send, claim and settle end in `**unknown: Never`, which type checkers refuse, too: it costs a
    call an empty dict, where `answering` costs a frame.
    """
    name = verb.__qualname__
    words = [*unknown]
    own = _SAME.get(name, name)
    guessed = next((word for word in words if sentence_for([word], own)), words[0])
    message = f"{name}() got an unexpected keyword argument {guessed!r}"
    if sentence := sentence_for([guessed], own):
        raise TypeError(f"{message}: {sentence}")
    near = get_close_matches(guessed, [*signature(verb).parameters], n=1)
    raise TypeError(f"{message}. Did you mean {near[0]!r}?" if near else message)


_SAME: Mapping[str, str] = {
    "Queue.send_many": "Queue.send",
    "Session.send": "Queue.send",
    "Queue.consume": "Queue.claim",
    "Session.claim": "Queue.claim",
    "Delivery.release": "Delivery.nack",
}
"""Verbs that have the answers of others."""


def part_of(name: str) -> Callable[[K], K]:
    """Make Python's errors about an internal class's methods show the name of the public class."""

    def named(kind: K) -> K:
        for method, function in vars(kind).items():
            if isfunction(function) and not method.startswith("_"):
                unwrap(function).__qualname__ = f"{name}.{method}"
        return kind

    return named


def answering(function: F) -> F:
    """Add our name to a function's TypeError for another library's argument; its signature stays.

    It costs a frame, so the verbs that send, claim and settle do not use it, but `refuse`.
    """

    def called(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError as error:
            refused = error.__traceback__ is None or error.__traceback__.tb_next is None  # before the call
            own = ARGUMENTS_OF.get(function.__qualname__, {})
            unknown = [name for name in (*given, *own) if f"'{name}'" in str(error)]
            if not (refused and (sentence := sentence_for(unknown, function.__qualname__))):
                raise
            message = f"{error}: {sentence}"
        raise TypeError(message)

    async def awaited(*args: Any, **given: Any) -> Any:
        return await called(*args, **given)

    return cast("F", wraps(function)(awaited if iscoroutinefunction(function) else called))


class _Guess:
    """Stands in for a name of another library, and raises an error with our name.

    Not `__getattr__`: CPython 3.11 does not cache attribute lookups in a class that has one.
    """

    def __init__(self, name: str, sentence: str) -> None:
        self._name, self._sentence = name, sentence

    def __get__(self, instance: object, owner: type) -> NoReturn:
        whose = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
        message = f"{whose} has no attribute {self._name!r}: {self._sentence}"
        raise AttributeError(message, name=self._name)  # without obj, so that Python adds no suggestion


def _without_guesses(owner: object, names: Iterable[str]) -> list[str]:
    return [name for name in names if not isinstance(getattr_static(owner, name, None), _Guess)]


class _Hiding(type):
    """Hides the guesses of a class from `dir()`, `help()` and completion."""

    def __dir__(cls) -> list[str]:
        return _without_guesses(cls, super().__dir__())


class Answering(metaclass=_Hiding):
    """A class whose AttributeError for another library's name suggests ours; hidden from type checkers."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, sentence in ATTRIBUTES.get(cls.__name__, {}).items():
            setattr(cls, name, _Guess(name, sentence))

    def __dir__(self) -> list[str]:
        return _without_guesses(self, super().__dir__())
