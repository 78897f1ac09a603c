"""The function of a task: its arguments as a body, and back.

A message of a task has the task's name in the header `task`. Its body is a JSON object with the arguments by
parameter name; `*args` is a list, and `**kwargs` an object, under these names. So programs in any language
can send it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from rq_dlq.client.arguments import arguments_of
from rq_dlq.client.binding import Binding, check_calls
from rq_dlq.client.parameters import annotations_of, is_async, is_delivery, names_taken, takes_self
from rq_dlq.client.unique import Unique, unique_id
from rq_dlq.errors import ConfigurationError, InvalidInput, InvalidMessage, UnprocessableMessage
from rq_dlq.values import signature
from rq_dlq.values.cached import cached_property
from rq_dlq.values.codec import Codec, Encoded
from rq_dlq.values.durations import shown
from rq_dlq.values.message import Message
from rq_dlq.values.signature import TASK

if TYPE_CHECKING:
    from rq_dlq.client.binding import BoundCall
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

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
        """A call with these arguments.

        Raises:
            InvalidMessage: they do not fit the signature, or a worker could not read them.
        """
        return self.binding.call(args, kwargs)

    def many(
        self,
        calls: Iterable[tuple[Any, ...] | Mapping[str, Any]],
        options: SendOptions,
        given: Collection[str],
    ) -> tuple[Iterable[Any], SendOptions]:
        """What `send` sends of many calls, and with which options: if these are the same for all, the calls.

        Raises:
            InvalidInput: they are not calls.
        """
        check_calls(calls)
        if self.is_alike(given):
            return calls, replace(options, encode=self.binding.encode)
        return self.messages(calls, given), options

    def messages(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any]], given: Collection[str] = ()
    ) -> Iterator[Encoded | Message[Encoded]]:
        """The messages of many calls.

        Args:
            calls: the arguments of each call: a tuple, or a mapping by their names.
            given: the sender's options for all calls; the rest follows from the arguments (`saying`).

        Raises:
            InvalidInput: they are not calls.
            InvalidMessage: see `call`, `saying`.
        """
        check_calls(calls)
        if self.is_alike(given):
            yield from map(Encoded, map(self.binding.encode, calls))
            return
        for given_call in calls:
            call = self.call(*arguments_of(given_call))
            own = self._texts(call, given)
            if self.unique is not None and "id" not in given:
                own["id"] = self.id_of(call)
            yield Message(call.body, **own)

    def is_alike(self, given: Collection[str]) -> bool:
        """Whether the calls have one key, one dependency and no ids: none follows from the arguments."""
        return self.said.keys() <= {*given} and (self.unique is None or "id" in given)

    def id_of(self, call: BoundCall) -> str:
        """The id of a call that is unique: the same for equal arguments, whether defaults are passed or not.

        Raises:
            InvalidMessage: the arguments cannot be encoded, or the function that chooses failed.
        """
        if callable(self.unique):
            return unique_id(self.name, self._chosen("id", self.unique, call))
        return unique_id(self.name, self._defaults | call.passed(self._sent.parameters))

    def saying(self, options: SendOptions, call: BoundCall, given: Collection[str] = ()) -> SendOptions:
        """The options of a call, with its key and dependency.

        The functions for key and dependency get the arguments that they name, or, if they have other names,
        all as they were passed. What was not passed has the function's default, or else the task's. Options
        in `given` stay.

        Raises:
            InvalidMessage: such a function failed.
        """
        texts = self._texts(call, given)
        return replace(options, **texts) if texts else options

    def _texts(self, call: BoundCall, given: Collection[str]) -> dict[str, Any]:
        return {of: self._of(of, call) for of in self.said if of not in given}

    def _of(self, of: Of, call: BoundCall) -> str | None:
        text = self.said[of]
        return self._chosen(of, text, call) if callable(text) else text

    def _chosen(self, what: str, choose: Callable[..., Any], call: BoundCall) -> Any:
        try:
            names, defaults = self._taken_by[what]
            return choose(**defaults | call.passed(names)) if names else choose(*call.args, **call.kwargs)
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
            sent = self.binding.codec.decode(delivery.data, raw=False)
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
        _ = self.binding.codec
        if self.rule is None:
            return
        try:
            self.call((), {})
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
    def binding(self) -> Binding:
        """Binds its calls, and encodes them."""
        return Binding(str(self), self._sent)

    @cached_property
    def _taken_by(self) -> dict[str, tuple[Collection[str], dict[str, Any]]]:
        """What the functions for key, dependency and id take by name, and the defaults of what they need."""
        chosen_by = [*self.said.items(), ("id", self.unique)]
        names = self._sent.parameters if self.binding.is_plain else ()
        taken = {what: names_taken(one, names) for what, one in chosen_by if callable(one)}
        return {
            what: (named, {name: value for name, value in self._defaults.items() if named.get(name)})
            for what, named in taken.items()
        }

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """What the parameters have that a call leaves out; of those that it may not, nothing."""
        none_passed = inspect.BoundArguments(self._sent, {})
        none_passed.apply_defaults()
        return none_passed.arguments
