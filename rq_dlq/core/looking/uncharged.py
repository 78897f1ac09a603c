"""Who holds the ids that refuse an ack, so that its message fails repeatedly without a charge."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.errors import KnownId
from rq_dlq.values.state import read_state
from rq_dlq.values.wanted import STATE

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.failure import Cause

NAMED = 3  # ids
_KNOWN = f"{KnownId.__module__}.{KnownId.__qualname__}"
_ID = re.compile(r"(?:^|, )(\S+) in '([^']+)'")  # rq_dlq/core/sessions/session.py


def held_by(keys: QueueKeys, cause: Cause) -> Steps[str]:
    """Who holds the ids that refuse an ack that sends; empty: the failure is another one."""
    said: list[str] = []
    for message_id, family in _ID.findall(cause.message)[:NAMED] if cause.type == _KNOWN else ():
        page: Page = yield page_calls.browse(replace(keys, family=family), ids=[message_id], wanted=STATE)
        state = read_state(page.rows()[0].state) if page.ids else None
        if state is None:
            held = f"a message in {family!r}" if page.ids else f"nothing in {family!r}"
            said.append(f"{held} has the id {message_id}")
        elif state.part == "live":
            said.append(f"a message in {family!r} that is not done has the id {message_id}")
        else:
            kind = "a dead letter" if state.part == "dead" else "an expired message"
            of = f"{family} --id {message_id}"
            said.append(
                f"{kind} of {family!r} has the id {message_id}: `rq-dlq dlq redrive {of}` redrives it, "
                f"`rq-dlq dlq purge {of}` frees the id"
            )
    return "; ".join(said)
