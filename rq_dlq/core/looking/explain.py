"""Explains where a message is, why it is not being delivered, and what happens next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rq_dlq.core.gathers.reading import said_of
from rq_dlq.core.keyed import calls as keyed_calls
from rq_dlq.core.keyed.keyed import said, why_blocked
from rq_dlq.core.looking import calls
from rq_dlq.core.looking.uncharged import held_by
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.policies.policies import explain_policy
from rq_dlq.core.processes.processes import takers
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.results import calls as result_calls
from rq_dlq.core.results.calls import Meant, ResultEnd
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import NodeUnavailable, Pipeline
from rq_dlq.errors import BrokerRefused, UnprocessableMessage
from rq_dlq.values.durations import human
from rq_dlq.values.failure import FAILURES, last_failure, moment
from rq_dlq.values.later import upgrade
from rq_dlq.values.message import DeadLetter, Received
from rq_dlq.values.names import check_id
from rq_dlq.values.outcome import read_outcome
from rq_dlq.values.readable import many, paused_until, utc
from rq_dlq.values.record import NUMBER_BITS, birth_of
from rq_dlq.values.sent import birth_meant
from rq_dlq.values.signature import BODIES, TASK
from rq_dlq.values.state import passed_on_of, runs_again, uncharged_of
from rq_dlq.values.wanted import STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Place
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.policy import QueueSettings
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.message import MessageRow
    from rq_dlq.values.state import PassedOn

Whereabouts = Literal["ready", "scheduled", "leased", "dead", "expired", "orphaned", "gone", "unknown"]
LOST = "it is in no index: a key of the queue was deleted or only partly restored"
MEND = "maintenance puts it back: a worker or `rq-dlq maintain` in about a minute, `queue.maintain()` at once"
NO_TRACE = (
    "no trace: it was never sent here, or it ended longer ago than the results, dedup_window or outcomes of "
    "the queue cover"
)
ENDS = {"acked", "cancelled", "moved", "purged", "discarded"}  # of messages that are in no place then
REMEMBERED = 1_000  # entries of the outcome history that are looked through
_PLACES: tuple[Place | None, ...] = ("scheduled", "ready", "dead", "expired", None)  # as messages move on


@dataclass(frozen=True, slots=True)
class Explanation:
    """The place of one message, and why it is there.

    Attributes:
        id: the message's id.
        place: ready, scheduled, leased, dead, expired; orphaned: it is in no index, so it is not delivered;
            gone: it has ended, and the queue remembers how; unknown: the queue has no trace of it.
        why: the reason, a sentence.
        next: what happens next, a sentence.
        at: when that happens, by the server's clock (UTC); None: unknown.
        message: the message itself; None if it is gone or unknown.
        birth: which message with this id it is (`Sent.birth`); None: unknown.

    Examples:
        >>> explanation = orders.explain("order-41")
        >>> explanation.place, explanation.next
        ('ready', 'the next claim takes it, after those before it')
        >>> explanation = mails.explain("mail-1")
        >>> explanation.place, explanation.why
        ('dead', 'poison (no address)')
    """

    id: str
    place: Whereabouts
    why: str
    next: str
    at: datetime | None
    message: Received[Any] | None
    birth: int | None = None

    def __str__(self) -> str:
        when = f" ({utc(self.at)})" if self.at else ""
        return f"{self.id} is {self.place}: {self.why}. Next: {self.next}{when}."


def explain(queue: QueueState[Any], message_id: str) -> Steps[Explanation]:
    """Explain one message: its own, if a send returned the id.

    Raises:
        UpgradeRequired: a later version wrote it, in a form that this one cannot read.
        InvalidMessage: `message_id` is not an id.
    """
    check_id(message_id)
    return behind(queue, partial(_explain, message_id, Meant(message_id, birth_meant(message_id))))


def _explain(message_id: str, meant: Meant, members: Sequence[QueueState[Any]]) -> Steps[Explanation]:
    for member in members:
        page: Page = yield page_calls.browse(member.keys, ids=[message_id])
        if page.ids:
            row = page.rows()[0]
            if version := row.version_needed:
                raise upgrade(f"message {message_id} of {member.keys.family!r}", version)
            birth = birth_of(row.record)
            if meant.birth in {0, birth}:
                found = yield from _present(member, page, row)
                more = yield from said_of(member.keys, row)
                return replace(found, why=found.why + more, birth=birth)
    for member in members:
        end, until = yield from _ended(member.keys, meant)
        if end:
            why, at = f"it was {end.word}", moment(end.at)
            return Explanation(message_id, "gone", why, "nothing", at, None, end.birth or None)
        if until and not meant.birth:
            why = "it was acked, and stays known, since its task is unique (unique_for)"
            return Explanation(message_id, "gone", why, "then an equal call is sent", moment(until), None)
    return Explanation(message_id, "unknown", NO_TRACE, "nothing", None, None, meant.birth or None)


def _present(queue: QueueState[Any], page: Page, row: MessageRow) -> Steps[Explanation]:
    """Explain a message that the queue has."""
    message: Received[Any] = Received(row, queue.codec, queue.keys.family)
    if (yield from _is_orphaned(queue.keys, page, row)):
        return Explanation(row.id, "orphaned", LOST, MEND, None, message)
    settings = yield from explain_policy(queue.keys, queue.naming)
    (now, counts), cancelled = yield Pipeline(
        [queue_calls.stats(queue.keys, queue.name), keyed_calls.cancelled_calls(queue.keys)]
    )
    why, after = yield from why_blocked(queue, row, now)
    if why:
        return Explanation(row.id, "scheduled", why, after, None, message)
    passed_on = passed_on_of(row.state)
    rest = "" if passed_on is None else (yield from _rest(queue, row, passed_on))
    rest += yield from _uncharged(queue, row)
    counts = replace(counts, leased=counts.leased + cancelled)  # both count against max_in_flight
    return _explained(queue, row, settings, now, counts, rest=rest)


def _ended(keys: QueueKeys, meant: Meant) -> Steps[tuple[ResultEnd | None, int]]:
    """The end of a message that is not here, and until when its id is known as that of a unique call.

    None: nothing remembers the end. 0: the id is unknown; otherwise milliseconds. The end is known from its
    result, from the newest part of the outcome history, or from the ids of acked messages (`dedup_window`),
    which have no births, but an ack is later than its send.
    """
    (result,), acked, events, until, (now, _) = yield Pipeline(
        [
            result_calls.result(keys, [meant]),
            calls.acked_at(keys, meant.id),
            calls.newest(keys, limit=REMEMBERED),
            calls.unique_until(keys, meant.id),
            queue_calls.stats(keys, keys.family),
        ]
    )
    known = until if until is not None and until > now else 0
    if isinstance(result, ResultEnd):
        return result, known
    for outcome in (read_outcome(keys.family, entry) for entry in reversed(events)):
        if outcome.id == meant.id and outcome.event in ENDS and meant.birth in {0, outcome.birth}:
            end = ResultEnd(outcome.event, outcome.birth or 0, round(outcome.at.timestamp() * 1000), b"")
            return end, known
    if acked is not None and acked >= meant.birth >> NUMBER_BITS:
        return ResultEnd("acked", meant.birth, acked, b""), known
    return None, known


def _is_orphaned(keys: QueueKeys, page: Page, row: MessageRow) -> Steps[bool]:
    """Whether a message that was read is in no place, and has not changed in the meantime."""
    if row.lease_until:
        return False
    found: list[Page] = yield Pipeline(
        [page_calls.browse(keys, ids=[row.id], place=place, wanted=STATE) for place in _PLACES]
    )
    *indexed, now = found
    return not any(there.ids for there in indexed) and (now.ids, now.states) == (page.ids, page.states)


def _rest(queue: QueueState[Any], row: MessageRow, passed_on: PassedOn) -> Steps[str]:
    """The end of the rest of a message that was passed on: which live worker may take it, or when it dies."""
    message = Received(row, queue.codec, queue.keys.family)
    try:
        task = message.headers.get(TASK, BODIES)
        found = yield from unrepeated(takers(queue.keys.namespace, queue.name, task))
    except (UnprocessableMessage, BrokerRefused, NodeUnavailable):
        return ""
    may = [process for process, mark in found if mark not in passed_on.marks]
    if may:
        more = f" and {len(may) - 1} more" if len(may) > 1 else ""
        return f"; it waits while a live worker accepts it: {may[0]}{more}"
    until = utc(moment(passed_on.until))
    return f"; no live worker accepts it: unless one starts, it dies at the next try after {until}"


def _uncharged(queue: QueueName, row: MessageRow) -> Steps[str]:
    """How often a message failed in a row without a charge, and who holds the ids that refuse its ack."""
    times, failure = uncharged_of(row.state), last_failure(row.history)
    if not times or failure is None or row.lease_until:
        return ""
    held = yield from held_by(queue.keys, failure.cause)
    return f"; it failed {many(times, 'time')} in a row without a charge{held and f': {held}'}"


def _explained(
    queue: QueueState[Any],
    row: MessageRow,
    settings: QueueSettings,
    now: int,
    counts: QueueStats,
    *,
    rest: str,
) -> Explanation:
    message = Received(row, queue.codec, queue.keys.family)
    if row.lease_until:
        return _leased(row, message, settings, now)
    if message.part != "live":
        return _buried(queue, row, settings)
    story = _story(message) + _ignored(message, settings)
    place: Whereabouts = "scheduled" if message.due > now else "ready"
    limit = settings.redelivery.max_redeliveries
    if limit is not None and message.charged > limit:  # the limit was lowered since its last failure
        failed = f"it failed {many(message.charged, 'time')}, and max_redeliveries is {limit} now"
        due = moment(message.due) if message.due > now else None
        return Explanation(row.id, place, story, f"a claim makes it a dead letter: {failed}", due, message)
    if message.expires_at is not None and message.expires_at <= moment(max(now, message.due)):
        over = "is over" if message.expires_at <= moment(now) else "ends before it is due"
        following = f"it expires, since its time to live {over}"
        return Explanation(row.id, place, story, following, message.expires_at, message)
    if message.due > now:
        due = moment(message.due)
        wait = human(message.due - now)
        return Explanation(row.id, "scheduled", story, f"due in {wait}, then ready{rest}", due, message)
    pace = "" if settings.rate is None else f"; the queue delivers at most {settings.rate}"
    following, at = f"the next claim takes it, after those before it{pace}{rest}", None
    if counts.paused:
        following, at = f"it waits: the queue is {paused_until(counts.until, moment(now))}", counts.until
    elif full := settings.at_capacity(counts.leased):
        following = full
    return Explanation(row.id, "ready", story, following, at, message)


def _ignored(message: Received[Any], settings: QueueSettings) -> str:
    """A text that its key or its dependency has no effect in this queue; empty: they have, or it has none."""
    key, dependency = said(message)
    unheeded = [
        f"; its {of} {text} is ignored, since the queue has no {setting}"
        for of, text, setting in (("key", key, "per_key"), ("dependency", dependency, "breaker"))
        if text is not None and getattr(settings, setting) is None
    ]
    return "".join(unheeded)


def _story(message: Received[Any]) -> str:
    """The last event of a live message, by its history."""
    told = {*FAILURES, "redriven"}
    last = next((event for event in reversed(message.history) if event.event in told), None)
    if last is None:
        return "it was released" if message.delivery_count else "it has not been delivered yet"
    if last.event == "passed_on":
        return f"{last.consumer} passed it on, since it does not accept it ({last.cause})"
    if last.event == "redriven":
        return "it was redriven, with a fresh budget"
    ended = {"lapsed": "ended when its lease expired", "dead_lettered": "was sent to the dead-letter queue"}
    what = ended.get(last.event, f"was {last.event}")
    said = f"its attempt {last.delivery} {what}" if last.delivery else f"it {what}"
    return f"{said} ({last.cause})" if str(last.cause) else said


def _leased(row: MessageRow, message: Received[Any], settings: QueueSettings, now: int) -> Explanation:
    limit = settings.redelivery.max_redeliveries
    budget = "" if limit is None else f", {max(0, limit - message.charged)} redeliveries left"
    left = human(max(0, row.lease_until - now))
    done = message.progress_made
    said = f" {done.text}" if done and done.text else ""
    how_far = f"; {done.part:.0%} done{said}, {human(max(0, now - done.at))} ago" if done else ""
    again = "; it was sent again meanwhile, so one more run follows its ack" if runs_again(row.state) else ""
    counts = "counts as a failure" if message.lapsed else "counts as a failure, unless a worker holds it"
    return Explanation(
        row.id,
        "leased",
        f"a consumer is processing attempt {message.attempt}{budget}{how_far}{again}",
        f"unless it is settled or extended, the lease expires in {left} and {counts}",
        moment(row.lease_until),
        message,
    )


def _buried(queue: QueueState[Any], row: MessageRow, settings: QueueSettings) -> Explanation:
    letter = DeadLetter(row, queue.codec, queue.keys.family)
    place: Whereabouts = "dead" if letter.part == "dead" else "expired"
    cause = str(letter.cause)
    kept_for = settings.dead_letter.expiration if place == "dead" else settings.expiry.retention
    why = f"{letter.reason} ({cause})" if cause else letter.reason
    if not isinstance(kept_for, int | float):
        return Explanation(row.id, place, why, "it stays until it is redriven or purged", None, letter)
    end = letter.died_at + timedelta(seconds=kept_for)
    return Explanation(row.id, place, why, "dropped, unless redriven before", end, letter)
