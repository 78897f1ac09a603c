"""Unique tasks: equal calls have one id, by which the queue knows them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from rq_dlq.core.sending.packing import Resend
from rq_dlq.errors import ConfigurationError
from rq_dlq.values.codec import Codec
from rq_dlq.values.durations import milliseconds, shown

if TYPE_CHECKING:
    from rq_dlq.core.sending.packing import SendOptions
    from rq_dlq.values.durations import Duration

Unique: TypeAlias = "Literal[True] | Callable[..., Any] | None"
"""What the id of a unique task follows from: all arguments of a call, or what a function of them returns."""
_ANY: Final = Codec[Any](Any, sys.maxsize)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_NAMED: Final = 40  # characters of the task's name in such an id


def unique_of(unique: object, unique_for: Duration | None) -> dict[str, Any]:
    """The options of a `TaskFunction`, from what a user passed.

    Raises:
        ConfigurationError: `unique` is neither a flag nor a function, or `unique_for` is without it.
        InvalidDuration: `unique_for` is not a duration.
    """
    if not callable(unique) and not isinstance(unique, bool):
        raise ConfigurationError(f"unique is {shown(unique)}. Pass True, or a function of the arguments")
    if unique_for is None:
        return {"unique": unique or None}
    if not unique:
        raise ConfigurationError(
            f"unique_for={shown(unique_for)} is how long a unique call is known: pass unique=True"
        )
    return {"unique": unique, "unique_for": milliseconds(unique_for, name="unique_for", minimum=1)}


def unique_id(name: str, part: Any) -> str:
    """The id of a call of this task; the same for equal values, whatever the order of their keys.

    Raises:
        InvalidMessage: the value cannot be encoded.
    """
    data = _SORTED.encode(msgspec.json.decode(_ANY.encode(part)))
    return f"{name[:_NAMED]}-{sha256(name.encode() + bytes(1) + data).hexdigest()[:32]}"


def once(options: SendOptions, unique_for: int, *, known_is_said: bool) -> SendOptions:
    """The options of a call that is unique.

    Args:
        unique_for: milliseconds since its first send for which the call is known; 0: until it is done.
        known_is_said: the sender says what happens to a known one; otherwise a dead one is redriven.
    """
    said = options.call
    if isinstance(said, Resend):
        call: Any = said._replace(known_for=unique_for)
    elif unique_for or not known_is_said:
        call = Resend("drop" if known_is_said else "redrive", known_for=unique_for)
    else:
        return options
    return replace(options, call=call)
