"""Arguments that are True or False."""

from __future__ import annotations

from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown


def check_flag(value: object, name: str, kind: type[InvalidInput] = InvalidInput) -> bool:
    """The value; what only looks true or false, as the text "no" does, is refused.

    Raises:
        InvalidInput: it is neither True nor False; an error of this kind.
    """
    if not isinstance(value, bool):
        raise kind(f"{name} is {shown(value)}. Pass True or False")
    return value
