"""Arguments that are True or False."""

from __future__ import annotations

from rq_dlq.errors import InvalidInput
from rq_dlq.values.durations import shown


def check_flag(value: object, name: str) -> None:
    """Refuse what only looks true or false, as the text "no" does.

    Raises:
        InvalidInput: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {shown(value)}. Pass True or False")
