"""Checks for messages held up by breakers, pauses and keys, and for ignored keys and dependencies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed import calls, keyed
from rq_dlq.core.keyed.outages import closed_lanes
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.blocked import Blocked
from rq_dlq.core.queues.each import UnreachableQueue, each_queue
from rq_dlq.core.queues.observers import Observers
from rq_dlq.core.steps.senders import Senders
from rq_dlq.core.steps.step import Batch
from rq_dlq.doctor.check import Check
from rq_dlq.values.codec import Codec, Ids
from rq_dlq.values.message import Received
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible_line
from rq_dlq.values.wanted import RECORD, STATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.key import Of

SAMPLE: Final = 5  # messages examined in each state of a queue
SHOWN: Final = 10  # lines
PATIENCE: Final = 600_000  # milliseconds that a message may wait for others of its key without a report
HEEDED_BY: Final[dict[Of, str]] = {"key": "--per-key order", "dependency": "--breaker on"}
REOPENED_BY: Final[dict[Of, str]] = {
    "dependency": (
        "`rq-dlq queue ls --dependencies` lists the dependencies; "
        "`rq-dlq queue resume QUEUE --dependency NAME` delivers the messages of one"
    ),
    "key": (
        "`rq-dlq key show QUEUE KEY` shows what waits for a key; "
        "`rq-dlq queue resume QUEUE --key KEY` delivers its messages"
    ),
}


def outages(settings: BrokerSettings) -> Steps[Check]:
    """Whether dependencies count as down, or dependencies or keys are paused."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_closed, settings.namespace))) if families else []
    said = [one for one in found if not isinstance(one, UnreachableQueue)]
    if not said:
        return Check("outages", "ok", "no dependency counts as down, and no key is paused")
    closed = {of for of, _ in said}
    advice = "; ".join(commands for of, commands in REOPENED_BY.items() if of in closed)
    return Check("outages", "warn", _few([words for _, words in said]), advice)


def _closed(namespace: str, names: Sequence[str]) -> Steps[list[tuple[Of, str] | UnreachableQueue]]:
    keys = [QueueKeys(namespace, name) for name in names]
    found: list[dict[int, calls.Lane]] = yield Batch([calls.specials(one) for one in keys])
    said: list[tuple[Of, str] | UnreachableQueue] = []
    for one, lanes in zip(keys, found, strict=True):
        if lanes:
            now, _ = yield queue_calls.stats(one, one.family)
            closed: list[tuple[Of, str]] = yield from closed_lanes(one, lanes, now)
            said.extend((of, f"{one.family}: {words}") for of, words in closed)
    return said


def held_up(settings: BrokerSettings) -> Steps[Check]:
    """Whether keys have held up messages for long; examines the keys with most messages of each queue."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_held_up, settings))) if families else []
    said = [one for one in found if isinstance(one, str)]
    if not said:
        return Check("keys", "ok", "no key holds up its messages for more than ten minutes")
    advice = (
        "`rq-dlq key show QUEUE KEY` says who holds it: finish that, or redrive, purge or ack its dead letter"
    )
    more = "`rq-dlq key limit QUEUE KEY N` lets in more if the rule is a limit"
    return Check("keys", "warn", _few(said), f"{advice}; {more}")


def _held_up(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    found: list[tuple[int, QueueStats]] = yield Batch(
        [queue_calls.stats(QueueKeys(settings.namespace, name), name) for name in names]
    )
    said: list[str | UnreachableQueue] = []
    for name, (now, stats) in zip(names, found, strict=True):
        if stats.blocked:
            queue = settings.queue(
                name, Ids(), Any, "30s", {}, senders=Senders(), blocked=Blocked(), observers=Observers()
            )
            said += [f"{name}: {words}" for words in (yield from keyed.held_up(queue, now - PATIENCE))]
    return said


def ignored(settings: BrokerSettings) -> Steps[Check]:
    """Whether queues ignore keys or dependencies; examines a few messages of each queue."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_ignored, settings))) if families else []
    said = [one for one in found if isinstance(one, str)]
    if not said:
        return Check("ignored", "ok", "no queue ignores keys or dependencies of its first messages")
    options = " or ".join(f"`{option}`" for of, option in HEEDED_BY.items() if any(of in one for one in said))
    return Check("ignored", "warn", _few(said), f"`rq-dlq policy set QUEUE` with {options} uses them")


def _ignored(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    keys = [QueueKeys(settings.namespace, name) for name in names]
    heeded: list[set[Of]] = yield Batch([queue_calls.heeded(one) for one in keys])
    said: list[str | UnreachableQueue] = []
    for one, heeds in zip(keys, heeded, strict=True):
        if len(heeds) == len(HEEDED_BY):
            continue
        pages: list[Page] = yield Batch([_first(one, place) for place in ("ready", "scheduled", "dead")])
        codec = Codec[Any](Any, settings.max_message_bytes)
        texts = [keyed.said(Received(row, codec, one.family)) for page in pages for row in page.rows()]
        there: dict[Of, bool] = {
            "key": any(key is not None for key, _ in texts),
            "dependency": any(dependency is not None for _, dependency in texts),
        }
        unheeded = [of for of, is_there in there.items() if is_there and of not in heeds]
        said += [f"{one.family} ignores the {of} of its messages" for of in unheeded]
    return said


def _first(keys: QueueKeys, place: Any) -> Any:
    return page_calls.scan(
        keys, place, after=page_calls.START, upto=page_calls.END, limit=SAMPLE, wanted=RECORD | STATE
    )


def _few(said: list[str]) -> str:
    """The first findings in one line: they quote keys and dependencies, which senders choose."""
    more = len(said) - SHOWN
    return "; ".join(map(visible_line, said[:SHOWN])) + (f"; and {many(more, 'other')}" if more > 0 else "")
