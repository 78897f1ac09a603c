"""The function of a task: its arguments as a body, and back.

A message of a task has the task's name in the header `task`. Its body is a JSON object with the arguments by
parameter name; `*args` is a list, and `**kwargs` an object, under these names. So programs in any language
can send it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import GenericAlias, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec

from rq_dlq.client.arguments import arguments_of
from rq_dlq.client.parameters import annotations_of, is_async, is_delivery, names_taken, takes_self
from rq_dlq.client.unique import Unique, unique_id
from rq_dlq.errors import ConfigurationError, InvalidInput, InvalidMessage, UnprocessableMessage
from rq_dlq.errors.guesses import sentence_for
from rq_dlq.values import signature
from rq_dlq.values.cached import cached_property
from rq_dlq.values.codec import Codec, Encoded
from rq_dlq.values.durations import shown
from rq_dlq.values.message import Message
from rq_dlq.values.signature import TASK

if TYPE_CHECKING:
    from rq_dlq.core.schedules.schedule import Rule
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.values.key import Of
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.signature import Signature

Text: TypeAlias = "str | Callable[..., str | None] | None"
"""A key or a dependency: one for all messages of a task, or a function of a call's arguments."""
NOTHING_SAID: Final[Mapping[Of, Text]] = MappingProxyType({})


class TaskFunction:
    """A task's function, its name, and the rule of its schedule, if it has one.

    Args:
        said: the key and the dependency of its messages, each a text or a function of a call's arguments that
            returns one; None: no key or dependency.
        result: the return values of its calls are kept for the senders.
        unique: the ids of its calls follow from their arguments: True: from all of them; a function of them:
            from what that returns; None: they do not.
        unique_for: milliseconds since its first send for which a call is known; 0: until it is done.

    Raises:
        ConfigurationError: it is not a function, has a `yield`, or has no name that fits in a header.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None,
        rule: Rule | None = None,
        said: Mapping[Of, Text] = NOTHING_SAID,
        *,
        result: bool = False,
        unique: Unique = None,
        unique_for: int = 0,
    ) -> None:
        if not inspect.isroutine(function):
            raise ConfigurationError(f"{shown(function)} cannot be a task: decorate a function")
        if takes_self(function):
            message = (
                f"{shown(function)} cannot be a task, which has no self or cls: use a staticmethod or a "
                "function"
            )
            raise ConfigurationError(message)
        self.function = function
        self.rule, self.result = rule, result
        self.unique, self.unique_for = unique, unique_for
        self.said: dict[Of, Text] = {of: text for of, text in said.items() if text is not None}
        self.name = function.__name__ if name is None else name
        self.is_async = is_async(function, "a task")
        if not isinstance(self.name, str) or not self.name or self.name == "<lambda>":
            raise ConfigurationError(f"{shown(self.name)} cannot name a task: pass name='…'")

    def __str__(self) -> str:
        return f"{self.name}{self._sent}"

    def headers(self, others: Mapping[str, str] | None) -> Mapping[str, str]:
        """The headers of a message of this task, including the sender's own.

        Raises:
            InvalidInput: the sender's own headers are not a mapping, or contain the task's header.
        """
        if others is None:
            return {TASK: self.name}
        if not isinstance(others, Mapping) or TASK in others:
            raise InvalidInput(f"headers {shown(others)}: pass a mapping without {TASK!r}, the task's name")
        return {TASK: self.name, **others}

    def body(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Encoded:
        """The body of a message that calls the task with these arguments.

        Raises:
            InvalidMessage: they do not fit the signature, or a worker could not read them.
        """
        arguments = self._simple(args, kwargs)
        return self._encoded(self._bound(args, kwargs) if arguments is None else arguments)

    def _encoded(self, arguments: dict[str, Any]) -> Encoded:
        data = self._codec.json_of(arguments)
        try:
            self._read(data)
        except Exception as error:  # noqa: BLE001 - of a type's code, too
            message = f"the arguments do not fit {self}: {error}; it was not sent"
            raise InvalidMessage(message) from None
        return Encoded(data)

    def _simple(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arguments of a call by their names; None: they do not fit, or only `_bound` can tell.

        It takes a tenth of the time of `inspect.Signature.bind`, which has the words for errors.
        """
        placed, names, needed = self._names
        if len(args) > len(placed):
            return None
        found = dict(zip(placed, args, strict=False))
        if kwargs:
            found.update((name, kwargs[name]) for name in names if name in kwargs)
        return found if len(found) == len(args) + len(kwargs) and needed <= found.keys() else None

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._sent.bind(*args, **kwargs).arguments
        except TypeError as error:
            unknown = [name for name in kwargs if name not in self._sent.parameters]
            sentence = sentence_for(unknown, "Task.send")
            message = f"{self} cannot be called like this: {error}; it was not sent"
            raise InvalidMessage(f"{message}: {sentence}" if sentence else message) from None

    def messages(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]], given: Collection[str] = ()
    ) -> Iterator[Encoded | Message[Encoded]]:
        """The messages of many calls.

        Args:
            calls: the arguments of each call: a tuple, or a mapping by their names.
            given: the sender's options for all calls; the rest follows from the arguments (`saying`).

        Raises:
            InvalidInput: they are not calls.
            InvalidMessage: see `body`, `saying`.
        """
        given_calls: Any = calls  # as passed by users
        if not isinstance(given_calls, Iterable) or isinstance(given_calls, str | bytes | Mapping):
            raise InvalidInput(
                f"{shown(calls)} is not a list of calls: pass the arguments of each, as in [(7,), (8,)]"
            )
        is_unique = self.unique is not None and "id" not in given
        if not is_unique and self.said.keys() <= {*given}:
            yield from self._bodies(calls)
            return
        for call in calls:
            args, kwargs = arguments_of(call)
            body = self.body(args, kwargs)
            own = self._texts(args, kwargs, given)
            if is_unique:
                own["id"] = self.id_of(args, kwargs)
            yield Message(body, **own)

    def _bodies(self, calls: Iterable[Any]) -> Iterator[Encoded]:
        placed, names, needed = self._names
        fewest = len(needed) if needed <= {*placed} else len(placed) + 1  # no call by place fits
        encoded, most, known = self._encoded, len(placed), {*names}
        for call in calls:
            kind = type(call)  # pyright: ignore[reportUnknownVariableType]
            if kind is tuple and fewest <= len(call) <= most:
                yield encoded(dict(zip(placed, call)))  # noqa: B905 - the keyword takes as long again
            elif kind is dict and needed <= call.keys() <= known:
                yield encoded({name: call[name] for name in names if name in call})
            else:
                yield self.body(*arguments_of(call))

    def id_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The id of a call that is unique: the same for equal arguments, whether defaults are passed or not.

        Raises:
            InvalidMessage: the arguments do not fit, cannot be encoded, or the function that chooses failed.
        """
        if callable(self.unique):
            return unique_id(self.name, self._chosen("id", self.unique, args, kwargs))
        try:
            bound = self._sent.bind(*args, **kwargs)
        except TypeError:
            self._bound(args, kwargs)  # it has the words for errors
            raise
        bound.apply_defaults()
        return unique_id(self.name, bound.arguments)

    def saying(
        self,
        options: SendOptions,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        given: Collection[str] = (),
    ) -> SendOptions:
        """The options of a call, with its key and dependency; `body` must have accepted the arguments.

        The functions for key and dependency get the arguments that they name, or, if they have other names,
        all as they were passed. What was not passed has the function's default, or else the task's. Options
        in `given` stay.

        Raises:
            InvalidMessage: such a function failed.
        """
        texts = self._texts(args, kwargs, given)
        return replace(options, **texts) if texts else options

    def _texts(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], given: Collection[str]
    ) -> dict[str, Any]:
        return {of: self._of(of, args, kwargs) for of in self.said if of not in given}

    def _of(self, of: Of, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        text = self.said[of]
        return self._chosen(of, text, args, kwargs) if callable(text) else text

    def _chosen(
        self, what: str, choose: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            if not (names := self._taken_by[what]):
                return choose(*args, **kwargs)
            given = self._simple(args, kwargs) or self._bound(args, kwargs)
            needed = {name: self._defaults[name] for name, is_needed in names.items() if is_needed}
            return choose(**needed | {name: given[name] for name in names if name in given})
        except Exception as error:
            raise InvalidMessage(
                f"{self}: the function of its {what} failed: {error!r}; it was not sent"
            ) from error

    def signature(self, max_bytes: int, version: str) -> Signature:
        """The signature of this task, for the reports of processes; see `signature.of_bodies`."""
        return signature.of_parameters(self._sent, max_bytes, version)

    def bound(self, delivery: Leased[Any]) -> inspect.BoundArguments:
        """The arguments of a message, for a call of the function.

        Raises:
            UnfitMessage: they do not fit.
            UnprocessableMessage: they cannot be decoded.
        """
        try:
            sent = self._codec.decode(delivery.data, raw=False)
        except UnprocessableMessage as error:
            raise type(error)(f"the arguments do not fit {self}: {error.__cause__}") from error
        given = {name: getattr(sent, name) for name in self._sent.parameters}
        arguments = {name: value for name, value in given.items() if value is not msgspec.UNSET}
        if self._injected is not None:
            arguments[self._injected] = delivery
        bound = inspect.BoundArguments(self._signature, arguments)
        bound.apply_defaults()
        return bound

    def check(self) -> None:
        """Check that arguments can be read.

        Raises:
            ConfigurationError: an annotation of the function cannot be evaluated, or it is scheduled and has
                a parameter without a default.
            InvalidMessage: an annotation is a type that no message can have.
        """
        _ = self._codec
        if self.rule is None:
            return
        try:
            self.body((), {})
        except InvalidMessage as error:
            message = (
                f"task {self.name!r} has a schedule, which sends no arguments: give each parameter a "
                f"default, or send them by queue.schedule(…) ({error})"
            )
            raise ConfigurationError(message) from None

    @cached_property
    def returned(self) -> Codec[Any] | None:
        """The codec of the return values, by the annotation; None: no annotation, or an unknown type."""
        returns = inspect.Parameter("returns", inspect.Parameter.KEYWORD_ONLY)
        returns = returns.replace(annotation=inspect.signature(self.function).return_annotation)
        try:
            kind = annotations_of(self.function, [returns], f"task {self.name!r}").get("returns", Any)
            return Codec(kind, sys.maxsize)
        except (ConfigurationError, InvalidMessage):
            return None

    @cached_property
    def _signature(self) -> inspect.Signature:
        """The function's signature, with types as its annotations."""
        signature = inspect.signature(self.function)
        types = annotations_of(self.function, signature.parameters.values(), f"task {self.name!r}")
        parameters = [
            one.replace(annotation=types.get(one.name, Any)) for one in signature.parameters.values()
        ]
        return inspect.Signature(parameters)

    @cached_property
    def _injected(self) -> str | None:
        """The parameter annotated as the delivery, if any; it is not sent."""
        found = (one.name for one in self._signature.parameters.values() if is_delivery(one.annotation))
        return next(found, None)

    @cached_property
    def _sent(self) -> inspect.Signature:
        parameters = self._signature.parameters.values()
        return inspect.Signature([one for one in parameters if one.name != self._injected])

    @cached_property
    def _taken_by(self) -> dict[str, dict[str, bool]]:
        """What the functions for key, dependency and id take by name, and whether they need it."""
        chosen_by = [*self.said.items(), ("id", self.unique)]
        return {what: names_taken(one, self._names[1]) for what, one in chosen_by if callable(one)}

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {one.name: one.default for one in self._sent.parameters.values()}

    @cached_property
    def _names(self) -> tuple[Sequence[str], Sequence[str], set[str]]:
        """The names of the parameters that can be passed by place, of all, and of those without a default.

        With `*args`, `**kwargs` or parameters that have no name for callers: such that no call fits.
        """
        parameters = self._sent.parameters.values()
        by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        if any(one.kind not in by_name for one in parameters):
            return (), (), {""}
        placed = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        return placed, [*self._sent.parameters], {one.name for one in parameters if one.default is one.empty}

    @cached_property
    def _codec(self) -> Codec[Any]:
        fields = [_field(parameter) for parameter in self._sent.parameters.values()]
        kind = msgspec.defstruct(str(self), fields, kw_only=True, forbid_unknown_fields=True)
        return Codec(kind, sys.maxsize)  # the queue's codec has a limit

    @cached_property
    def _read(self) -> Callable[[bytes], Any]:
        return cast("Callable[[bytes], Any]", self._codec.read)  # as it is not bytes


def _field(parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind: Any = parameter.annotation
    if parameter.kind is parameter.VAR_POSITIONAL:
        return parameter.name, GenericAlias(tuple, (kind, ...)), msgspec.UNSET
    if parameter.kind is parameter.VAR_KEYWORD:
        return parameter.name, GenericAlias(dict, (str, kind)), msgspec.UNSET
    if parameter.default is parameter.empty:
        return parameter.name, kind
    return parameter.name, kind, msgspec.UNSET
