"""The mark of data that only later versions can read, and the error for it.

A state in a later form begins with the version that can read it, ">=1.4 "; a record has this mark after its
birth and a byte of flags. A program that cannot read the form leaves the message unchanged.
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
