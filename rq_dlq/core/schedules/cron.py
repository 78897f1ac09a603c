"""Cron expressions in other programs' syntax: their equivalents here, or advice."""

from __future__ import annotations

import re
from typing import Final

from rq_dlq.errors import InvalidInput

NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_INTERVAL = 'an interval is not a cron expression: pass every="5m" instead'
_ZONE = 'the time zone is a separate argument: pass timezone="Europe/Berlin"'
_FIELDS = "five fields, minute hour day month weekday, or six with seconds in front"
FOREIGN: Final = [
    (r"@every\b|rate\(", _INTERVAL),
    (r"@reboot", "a schedule has no tick at a start: send the message when the program starts"),
    (r"@", f"the names are {', '.join(NICKNAMES)}"),
    (r"(cron_)?tz=|.* \w+/\w+$", _ZONE),
    (r"cron\(", f"pass the text in the parentheses, without its year: {_FIELDS}, with * instead of ?"),
    (r".*\s#", "remove the comment after it"),
    (r"(\S+ ){6}\S+$", f"there is no field for the year, as Quartz has one: use {_FIELDS}"),
    (
        r".*\?",
        "write * for the ? of Quartz, and weekdays as mon or sun: Quartz counts them from 1 = sun",
    ),
    (r".*\d+w\b|.*\blw\b", "there is no W, the nearest weekday: L is the last day of a month"),
    (r"(.* )?h\b|.*~", "a random time, such as Jenkins' H or OpenBSD's ~, must be a number here"),
    (r".*(monday|tuesday|wednesday|thursday|friday|saturday|sunday)", "write weekdays with three letters"),
    (r".*(january|february|march|april|june|july|august|[a-z]+ber\b)", "write months with three letters"),
]
"""Forms that other programs accept, by their first characters, in lower case; and the form to use here."""


def as_fields(expression: str) -> str:
    """A cron expression in fields: "0 0 * * *" for "@daily".

    Raises:
        InvalidInput: it is only valid in another program.
    """
    text = " ".join(expression.lower().split())
    if text in NICKNAMES:
        return NICKNAMES[text]
    if "\n" in expression.strip():
        raise InvalidInput(f"cron {expression!r}: these are several lines, and each is a separate schedule")
    for form, answer in FOREIGN:
        if re.match(form, text):
            raise InvalidInput(f"cron {expression!r}: {answer}")
    return expression
