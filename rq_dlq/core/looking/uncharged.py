"""Messages that fail repeatedly without a charge, and who holds the ids that refuse their acks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.errors import KnownId
from rq_dlq.values.failure import last_failure
from rq_dlq.values.state import read_state, uncharged_of
from rq_dlq.values.wanted import STATE, STORY

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.failure import Cause

OFTEN = 5  # failures in a row that are reported
READ = 100  # scheduled messages of a queue that are examined
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


def going_round(keys: QueueKeys) -> Steps[list[str]]:
    """The messages that failed often in a row without a charge, among the first scheduled ones, in words."""
    page: Page = yield page_calls.scan(
        keys, "scheduled", after=page_calls.START, upto=page_calls.END, limit=READ, wanted=STORY
    )
    said: list[str] = []
    for row in page.rows():
        times, failure = uncharged_of(row.state), last_failure(row.history)
        if times >= OFTEN:
            why = f" ({failure.cause})" if failure and str(failure.cause) else ""
            held = (yield from held_by(keys, failure.cause)) if failure else ""
            said.append(f"{row.id} failed {times} times in a row without a charge{why}{held and f': {held}'}")
    return said
