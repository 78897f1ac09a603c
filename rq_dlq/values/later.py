"""The mark of data that only later versions can read, and the error for it.

A state in a later form begins with the version that can read it, ">=1.4 "; a record has this mark after its
birth and a byte of flags. A program that cannot read the form leaves the message unchanged.

A version keeps data that it does not know, and leaves data alone that it cannot interpret, with an error that
names the version that can. `lua/README.md` ("Two versions on one queue") has the rules; in `tests/format`
every verb in a form with more fields runs on data of today's form, and the reverse.

- *A new field in a state* is `name=value` at the end, found by name, so two versions may each add one.
  Without such fields it costs nothing.
- *A new field in a record* is stored before the headers, inside the length that precedes them. So a body
  begins where it always did, for Python, Lua and Spark. Verbs do not read this part.
- *A mark names the version that can read the data*, since an older version cannot know it. In a record a
  combination of flags that no message has, and its text, distinguish the mark from damage. A claim finds both
  with a check that it makes anyway.
- *Postponed, not set aside.* A separate key for unreadable messages would have to be emptied by an operator.
  A row that returns every minute is found by the first program that can read it.
- *A policy with unknown arithmetic judges nothing.* A nack is refused with an explanation, a lapse waits; the
  default policy could kill messages that the operator wanted to keep. With an unknown `dead_letter` strategy
  the message is kept.
- *An entry of the map of an unknown kind* stops only the queues that it matches from being opened. An entry
  keeps fields that a newer version set, and `configure` leaves fields that it does not receive unchanged.
"""

from __future__ import annotations

import re
from typing import Final

from rq_dlq.errors import UpgradeRequired

MARK: Final = re.compile(rb">=([0-9][0-9.]{0,15})(?: |$)")  # lua/record.lua, is_later


def needed(text: bytes, start: int = 0) -> str:
    """The version that a mark requires; empty: there is no mark."""
    found = MARK.match(text, start)
    return found[1].decode() if found else ""


def upgrade(what: str, version: str) -> UpgradeRequired:
    """The error for data that this version cannot read.

    Args:
        what: the subject of the sentence: "the record of message m".
        version: the oldest version that can read it; empty: unknown.
    """
    reader = f"rq_dlq {version} or later" if version else "a later version of rq_dlq"
    message = f"{what} needs {reader}: upgrade this program. Until then it is not changed"
    return UpgradeRequired(message, version)
