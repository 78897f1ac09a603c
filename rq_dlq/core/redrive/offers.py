"""Redrives whose messages only the caller can move: it edits them, or they go to another queue.

The caller reads the next messages of the list, and offers each as it has read it, together with its new
record. The verb moves those that have not changed, and counts them. So each is redriven once, even if
another redrive chooses it. A message whose edit fails stays dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.redrive import calls
from rq_dlq.core.redrive.calls import Offer
from rq_dlq.core.redrive.redrives import LEFT, STEP, unknown
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import CHUNK_BYTES, Deadline, Pipeline, Steps
from rq_dlq.errors import InvalidInput, RqDlqError
from rq_dlq.values import record
from rq_dlq.values.changed import MOST_REFUSALS, Refusal
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.state import length_of
from rq_dlq.values.visible import visible_line
from rq_dlq.values.wanted import HEAD, RECORD, STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.redrive.calls import Offered
    from rq_dlq.core.redrive.record import Redrive
    from rq_dlq.core.redrive.terms import Terms
    from rq_dlq.core.steps.call import Call
    from rq_dlq.values.message import MessageRow

START = -1  # no position: the verb replies the current one, and notes that its caller is active
TOLD = 10  # seconds of edits after which the caller reports that it is active


def check_reach(sources: Sequence[QueueName], target: QueueName) -> Steps[None]:
    """Check that one step reaches both queues; nothing is done.

    Raises:
        CrossSlot: a cluster keeps them on different nodes.
    """
    for source in sources:
        yield calls.offer_redrive(
            source.keys, target.keys, "", position=START, grace=0, opening="", offers=()
        )


class Editor:
    """The changes of a redrive to its messages.

    Attributes:
        target: the queue that they go to.
        refused: how many the edit refused.
        refusals: the first refusals, by their ids, including ids that the other queue has.
    """

    def __init__(self, queue: QueueState[Any], terms: Terms) -> None:
        self._queue = queue
        self._edit = terms.edit
        self.target = terms.to or queue
        self.refused = 0
        self.refusals: dict[str, Refusal] = {}

    @property
    def wanted(self) -> Any:
        """The parts of messages that it reads."""
        return STATE | (RECORD if self._edit else HEAD)

    def offer(self, row: MessageRow) -> Offer:
        """A message as it is offered; an edit that fails refuses it."""
        letter = DeadLetter(row, self._queue.codec, self._queue.keys.family)
        try:
            return Offer(row.id, f"{letter.due}/{letter.redriven}", self._edited(row, letter))
        except Exception as error:  # noqa: BLE001 - the edit is the user's
            self.refused += 1
            text = str(error) if isinstance(error, RqDlqError) else f"{type(error).__name__}: {error}"
            self.refuse(row.id, text)
            return Offer(row.id)

    def written(self, offer: Offer, row: MessageRow | None) -> int:
        """Bytes of the record that an offer makes the verb write; 0: none, or a short one as it is."""
        if offer.record or not offer.seen or row is None or self.target is self._queue:
            return len(offer.record)
        return length_of(row.state or b"")

    def refuse(self, message_id: str, why: str) -> None:
        """Keep why a message stays dead."""
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals[message_id] = Refusal(message_id, visible_line(why))  # even if it is offered again

    def _edited(self, row: MessageRow, letter: DeadLetter[Any]) -> bytes:
        """The record with the edited body; empty: no edit."""
        if self._edit is None:
            return b""
        body = self._edit(letter.body)
        if body is None:
            raise InvalidInput("the edit returned nothing: it must return the body")
        payload = self.target.codec.packer(letter.priority, letter.headers, key=letter.key)(body)
        packed = bytes(record.FLAGS) + payload
        raw = bool(packed[record.FLAGS] & record.BYTES)
        return record.with_body(row.record, record.content_of(packed).body, raw=raw)


def drive_offered(
    keys: QueueKeys,
    redrive: Redrive,
    editor: Editor,
    deadline: Deadline,
    told: Callable[[Redrive], None],
) -> Steps[Redrive]:
    """Drive a redrive until it does not run any more, as `drive` does.

    Raises:
        InvalidInput: the other queue was deleted in the meantime.
    """
    target = editor.target.keys if redrive.asked.to else keys
    opening: str = (yield queue_calls.opening(target)) if redrive.asked.to else ""
    position, offers = START, list[Offer]()
    while True:
        step = calls.offer_redrive(
            keys, target, redrive.id, position=position, grace=LEFT, opening=opening, offers=offers
        )
        last: Offered
        found: Redrive | None
        last, found = yield Pipeline([step, calls.record(keys, redrive.id)])
        if found is None:
            raise unknown(keys, redrive.id)
        told(found)
        if last.deleted or (redrive.asked.to and not opening):
            yield from _cancel(keys, found)
            raise ERRORS[Word.DELETED](
                f"{target.family!r} was deleted in the meantime, so the remaining messages are still dead"
            )
        for known in last.known:
            editor.refuse(known.decode(), f"{target.family} has a message with this id")
        if found.state != "running" or (position != START and deadline.is_over):
            return found
        offers = [] if position == START else offers[last.position - position :]
        position = last.position
        if last.wait:
            yield deadline.wait(keys.silent, last.wait)
        if not offers:
            still_here = calls.offer_redrive(
                keys, target, redrive.id, position=START, grace=LEFT, opening=opening, offers=()
            )
            offers = yield from _next(keys, redrive, position, editor, still_here, clock=deadline.clock)


def _cancel(keys: QueueKeys, redrive: Redrive) -> Steps[None]:
    by, user = redrive.asked.by, redrive.asked.user
    yield calls.steer_redrive(keys, redrive.id, "cancel", by=by, user=user, grace=LEFT)


def _next(
    keys: QueueKeys,
    redrive: Redrive,
    position: int,
    editor: Editor,
    still_here: Call[Offered],
    *,
    clock: Callable[[], float],
) -> Steps[list[Offer]]:
    """The next messages of the list, about half a megabyte that the verb writes, or one.

    Missing messages are offered as missing.

    Args:
        still_here: is called where their edits take long.
        clock: seconds; it never goes back.
    """
    ids: list[str] = yield calls.listed(keys, redrive.id, position, STEP)
    if not ids:
        return []
    place: Any = redrive.asked.part
    page: Page = yield page_calls.browse(keys, place=place, ids=ids, wanted=editor.wanted)
    rows = {row.id: row for row in page.rows()}
    offers, size, told = list[Offer](), 0, clock()
    for message_id in ids[: page.looked]:
        offer = editor.offer(rows[message_id]) if message_id in rows else Offer(message_id, "gone")
        more = editor.written(offer, rows.get(message_id))
        if offers and size + more > CHUNK_BYTES:
            break
        offers.append(offer)
        size += more
        if clock() - told >= TOLD:
            yield still_here
            told = clock()
    return offers
