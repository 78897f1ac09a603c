"""Arguments that are True or False."""

from __future__ import annotations

from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown


def check_flag(value: object, name: str, kind: type[InvalidInput] = InvalidInput) -> bool:
    """Check that a value is True or False; text such as "no" is refused.

    Raises:
        InvalidInput: it is neither True nor False; the error has the class `kind`.
    """
    if not isinstance(value, bool):
        raise kind(f"{name} is {shown(value)}. Pass True or False")
    return value
