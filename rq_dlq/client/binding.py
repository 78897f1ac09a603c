"""Calls of a task as JSON: their arguments are bound to the parameters, and encoded."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import GenericAlias
from typing import Any, NamedTuple, cast

import msgspec

from rq_dlq.client.arguments import arguments_of
from rq_dlq.errors import InvalidInput, InvalidMessage
from rq_dlq.errors.guesses import sentence_for
from rq_dlq.values.cached import cached_property
from rq_dlq.values.codec import Codec, Encoded
from rq_dlq.values.durations import shown


class BoundCall(NamedTuple):
    """A call: its arguments as they were passed, and bound, and the body of its message.

    Attributes:
        sent: has a field for each parameter; `UNSET`: it was not passed.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sent: msgspec.Struct
    body: Encoded

    def passed(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of these arguments that were passed, by their names."""
        return {name: value for name in names if (value := getattr(self.sent, name)) is not msgspec.UNSET}


class Binding:
    """Binds and encodes the calls of a task.

    Nearly all calls are bound by a struct, in C, which takes a tenth of the time of `inspect.Signature.bind`.
    What does not fit goes to that, which has the words for errors.

    Args:
        task: its name and signature.
        sent: the parameters that callers pass, with types as their annotations.

    Attributes:
        is_plain: callers can pass all parameters by name, so that the struct binds as Python does.
    """

    def __init__(self, task: str, sent: inspect.Signature) -> None:
        self._task, self._sent = task, sent
        by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        self.is_plain = by_name.issuperset(one.kind for one in sent.parameters.values())

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
        """A call with these arguments.

        Raises:
            InvalidMessage: they do not fit the signature, or a worker could not read them.
        """
        sent = self._bound(args, kwargs)
        return BoundCall(args, kwargs, sent, Encoded(self._encoded(sent, (args, kwargs))))

    @cached_property
    def encode(self) -> Callable[[Any], bytes]:
        """Makes the body of one of many calls: a tuple of its arguments, or a mapping by their names."""
        struct, json_of, read = self._struct, self.codec.json_of, self._read

        def whole(call: Any) -> bytes:
            return self._encoded(self._bound(*arguments_of(call)), call)

        def encode(call: Any) -> bytes:
            try:
                data = json_of(struct(*call) if type(call) is tuple else struct(**call), call)
                read(data)
            except Exception:  # noqa: BLE001 - `whole` has the words
                return whole(call)
            return data

        return encode if self.is_plain else whole

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Struct:
        if not self.is_plain:
            return self._struct(**self._arguments(args, kwargs))
        try:
            return self._struct(*args, **kwargs)
        except TypeError:
            self._arguments(args, kwargs)
            raise

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._sent.bind(*args, **kwargs).arguments
        except TypeError as error:
            unknown = [name for name in kwargs if name not in self._sent.parameters]
            sentence = sentence_for(unknown, "Task.send")
            message = f"{self._task} cannot be called like this: {error}; it was not sent"
            raise InvalidMessage(f"{message}: {sentence}" if sentence else message) from None

    def _encoded(self, sent: msgspec.Struct, values: Any) -> bytes:
        data = self.codec.json_of(sent, values)
        try:
            self._read(data)
        except Exception as error:  # noqa: BLE001 - of a type's code, too
            message = f"the arguments do not fit {self._task}: {error}; it was not sent"
            raise InvalidMessage(message) from None
        return data

    @cached_property
    def codec(self) -> Codec[Any]:
        """Encodes and decodes the arguments.

        Raises:
            InvalidMessage: an annotation is a type that no message can have.
        """
        return Codec(self._struct, sys.maxsize)  # the queue's codec has a limit

    @cached_property
    def _read(self) -> Callable[[bytes], Any]:
        return cast("Callable[[bytes], Any]", self.codec.read)  # as it is not bytes

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        parameters = self._sent.parameters.values()
        placed = [_field(one) for one in parameters if self.is_plain and one.kind is not one.KEYWORD_ONLY]
        named = [_field(one) for one in parameters if not self.is_plain or one.kind is one.KEYWORD_ONLY]
        base = msgspec.defstruct(self._task, named, kw_only=True)
        return msgspec.defstruct(self._task, placed, bases=(base,), forbid_unknown_fields=True)


def check_calls(calls: Any) -> None:
    """Check what a user passed as many calls.

    Raises:
        InvalidInput: it is one call, or something else.
    """
    given: Any = calls
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise InvalidInput(
            f"{shown(calls)} is not a list of calls: pass the arguments of each, as in [(7,), (8,)]"
        )


def _field(parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind: Any = parameter.annotation
    if parameter.kind is parameter.VAR_POSITIONAL:
        return parameter.name, GenericAlias(tuple, (kind, ...)), msgspec.UNSET
    if parameter.kind is parameter.VAR_KEYWORD:
        return parameter.name, GenericAlias(dict, (str, kind)), msgspec.UNSET
    if parameter.default is parameter.empty:
        return parameter.name, kind
    return parameter.name, kind, msgspec.UNSET
