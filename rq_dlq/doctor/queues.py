"""Checks for messages held up by breakers, pauses and keys, or failing uncharged; and for ignored keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed import calls, keyed
from rq_dlq.core.keyed.firsts import first_said
from rq_dlq.core.keyed.outages import of_queue, paused_keys
from rq_dlq.core.looking.uncharged import going_round
from rq_dlq.core.processes.processes import workers
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.blocked import Blocked
from rq_dlq.core.queues.each import UnreachableQueue, each_queue
from rq_dlq.core.queues.observers import Observers
from rq_dlq.core.steps.senders import Senders
from rq_dlq.core.steps.step import Batch
from rq_dlq.doctor.check import Check
from rq_dlq.values import outage
from rq_dlq.values.codec import Codec, Ids
from rq_dlq.values.readable import many
from rq_dlq.values.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.key import Of
    from rq_dlq.values.outage import Level
    from rq_dlq.values.process import ProcessReport

SHOWN: Final = 10  # lines
PATIENCE: Final = 600_000  # milliseconds that a message may wait for others of its key without a report
HEEDED_BY: Final[dict[Of, str]] = {"key": "--per-key order", "dependency": "--breaker on"}


def breakers(settings: BrokerSettings) -> Steps[Check]:
    """Whether dependencies are down or paused, and which failures did not count against theirs."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_outages, settings.namespace))) if families else []
    told = [one for one in found if not isinstance(one, UnreachableQueue)]
    wrong = [words for level, words in told if level != "calm"]
    advice = ["`rq-dlq queue ls --dependencies` lists what is down or paused"] if wrong else []
    if uncounted := _uncounted((yield from workers(settings.namespace))):
        wrong += uncounted
        advice.append("add to Breaker(errors=...) what means that the service is down")
    said = [*wrong, *(words for level, words in told if level == "calm")]
    if not said:
        return Check("breakers", "ok", "no dependency is down or paused")
    return Check("breakers", "warn" if wrong else "ok", _few(said), "; ".join(advice))


def _outages(namespace: str, names: Sequence[str]) -> Steps[list[tuple[Level, str] | UnreachableQueue]]:
    keys = [QueueKeys(namespace, name) for name in names]
    lanes: list[dict[int, calls.Lane]] = yield Batch([calls.specials(one) for one in keys])
    said: list[tuple[Level, str] | UnreachableQueue] = []
    for one, special in zip(keys, lanes, strict=True):
        if special:
            at, found = yield from of_queue(one)
            for known in found:
                if level := outage.level_of(known):
                    words = f"{one.family}: {outage.what(known, at)}; {outage.advice(known, at)}"
                    said.append((level, words))
    return said


def _uncounted(reports: Iterable[ProcessReport]) -> list[str]:
    """The failures that did not count against the dependency of their message, by the reports of workers."""
    found = {(name, kind) for one in reports for name, own in one.queues.items() for kind in own.uncounted}
    return [
        f"{name}: {kind or 'an error in words'} did not count, since Breaker(errors=...) leaves it out"
        for name, kind in sorted(found)
    ]


def held_up(settings: BrokerSettings) -> Steps[Check]:
    """Whether keys have held up messages for long; examines the keys with most messages of each queue."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_held_up, settings))) if families else []
    said = [one for one in found if isinstance(one, str)]
    if not said:
        return Check("keys", "ok", "no key is paused, or holds up its messages for more than ten minutes")
    advice = (
        "`rq-dlq key show QUEUE KEY` says who holds it: finish that, redrive, purge or ack its dead letter, "
        "or `rq-dlq queue resume QUEUE --key KEY`"
    )
    more = "`rq-dlq key limit QUEUE KEY N` lets in more if the rule is a limit"
    return Check("keys", "warn", _few(said), f"{advice}; {more}")


def _held_up(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    counts: list[tuple[int, QueueStats]] = yield Batch(
        [queue_calls.stats(QueueKeys(settings.namespace, name), name) for name in names]
    )
    said: list[str | UnreachableQueue] = []
    for name, (now, stats) in zip(names, counts, strict=True):
        if stats.blocked:
            queue = settings.queue(
                name, Ids(), Any, "30s", {}, senders=Senders(), blocked=Blocked(), observers=Observers()
            )
            found = [*(yield from keyed.held_up(queue, now, PATIENCE)), *(yield from paused_keys(queue, now))]
            said += [f"{name}: {words}" for words in found]
    return said


def uncharged(settings: BrokerSettings) -> Steps[Check]:
    """Whether messages fail repeatedly without a charge, so that no budget ends them."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_uncharged, settings))) if families else []
    said = [one for one in found if isinstance(one, str)]
    if not said:
        return Check("uncharged", "ok", "no message fails repeatedly without a charge")
    return Check("uncharged", "warn", _few(said), "`rq-dlq msg explain QUEUE ID` says why a message fails")


def _uncharged(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    said: list[str | UnreachableQueue] = []
    for name in names:
        words = yield from going_round(QueueKeys(settings.namespace, name))
        said += [f"{name}: {one}" for one in words]
    return said


def ignored(settings: BrokerSettings) -> Steps[Check]:
    """Whether queues ignore keys or dependencies, or have none to heed; examines a few messages of each."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, partial(_ignored, settings))) if families else []
    said = [one for one in found if isinstance(one, str)]
    if not said:
        return Check("ignored", "ok", "no queue ignores keys or dependencies of its first messages")
    advice: list[str] = []
    if ignored := [one for one in said if " ignores " in one]:
        options = [f"`{option}`" for of, option in HEEDED_BY.items() if any(of in one for one in ignored)]
        advice.append(f"`rq-dlq policy set QUEUE` with {' or '.join(options)} uses them")
    if len(ignored) < len(said):
        advice.append("a breaker counts only messages that are sent with dependency=...")
    return Check("ignored", "warn", _few(said), "; ".join(advice))


def _ignored(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    keys = [QueueKeys(settings.namespace, name) for name in names]
    heeded: list[set[Of]] = yield Batch([queue_calls.heeded(one) for one in keys])
    said: list[str | UnreachableQueue] = []
    for one, heeds in zip(keys, heeded, strict=True):
        texts = yield from first_said(one, Codec[Any](Any, settings.max_message_bytes))
        there: dict[Of, bool] = {
            "key": any(key is not None for key, _ in texts),
            "dependency": any(dependency is not None for _, dependency in texts),
        }
        unheeded = [of for of, is_there in there.items() if is_there and of not in heeds]
        said += [f"{one.family} ignores the {of} of its messages" for of in unheeded]
        if texts and "dependency" in heeds and not there["dependency"]:
            said.append(f"{one.family} has a breaker, and its first messages name no dependency")
    return said


def _few(said: list[str]) -> str:
    """The first findings in one line: they quote keys and dependencies, which senders choose."""
    more = len(said) - SHOWN
    return "; ".join(map(visible_line, said[:SHOWN])) + (f"; and {many(more, 'other')}" if more > 0 else "")
