"""Checks for messages that are held up or fail uncharged, and for keys and dependencies that are ignored."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rq_dlq._keys import QueueKeys
from rq_dlq.core.keyed import calls, keyed
from rq_dlq.core.keyed.firsts import first_said
from rq_dlq.core.keyed.outages import of_queue, paused_keys
from rq_dlq.core.looking.uncharged import held_by
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.policies import calls as policy_calls
from rq_dlq.core.processes.busy import LONG, busy
from rq_dlq.core.processes.processes import processes, workers
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.each import UnreachableQueue, each_queue
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.doctor.check import Check
from rq_dlq.policy.entry import marked_anew
from rq_dlq.values import outage
from rq_dlq.values.codec import Codec
from rq_dlq.values.failure import last_failure
from rq_dlq.values.readable import many, span
from rq_dlq.values.state import uncharged_of
from rq_dlq.values.visible import visible_line
from rq_dlq.values.wanted import STORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rq_dlq.client.settings import BrokerSettings
    from rq_dlq.core.pages.calls import Page
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.counts import QueueStats
    from rq_dlq.values.key import Of
    from rq_dlq.values.outage import Level
    from rq_dlq.values.process import ProcessReport

R = TypeVar("R")

SHOWN: Final = 10  # lines
OFTEN: Final = 5  # failures in a row without a charge that are reported
READ: Final = 100  # scheduled messages of a queue that are examined for these
PATIENCE: Final = 600_000  # milliseconds that a message may wait for others of its key without a report
NUMBERED_BEFORE: Final = "its keys or dependencies have the lanes of 0.1.0"
DECLARED_BEFORE: Final = "a program of 0.1.0 has declared its settings, and gets errors"
HEEDED_BY: Final[dict[Of, str]] = {"key": "--per-key order", "dependency": "--breaker on"}


def breakers(settings: BrokerSettings) -> Steps[Check]:
    """Whether dependencies are down or paused, and which failures did not count against theirs."""
    told = yield from _of_all(settings, partial(_outages, settings.namespace))
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
    lanes: list[dict[int, calls.LaneState]] = yield Pipeline([calls.specials(one) for one in keys])
    said: list[tuple[Level, str] | UnreachableQueue] = []
    for one, special in zip(keys, lanes, strict=True):
        if special:
            at, found = yield from of_queue(one)
            said.extend(
                (level, f"{one.family}: {outage.line(known, at)}")
                for known in found
                if (level := outage.level_of(known))
            )
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
    well = "no key is paused, or holds up its messages for more than ten minutes"
    advice = (
        "`rq-dlq key show QUEUE KEY` says who holds it: finish that, redrive, purge or ack its dead letter, "
        "or `rq-dlq queue resume QUEUE --key KEY`"
    )
    more = "`rq-dlq key limit QUEUE KEY N` lets in more if the rule is a limit"
    return (yield from _found("keys", settings, _held_up, well, lambda _: f"{advice}; {more}"))


def _held_up(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    counts: list[tuple[int, QueueStats]] = yield Pipeline(
        [queue_calls.stats(QueueKeys(settings.namespace, name), name) for name in names]
    )
    said: list[str | UnreachableQueue] = []
    for name, (now, stats) in zip(names, counts, strict=True):
        if stats.blocked:
            queue = settings.queue(name, Any, "30s", {}, settings._client())
            found = [*(yield from keyed.held_up(queue, now, PATIENCE)), *(yield from paused_keys(queue, now))]
            said += [f"{name}: {words}" for words in found]
    return said


def former(settings: BrokerSettings) -> Steps[Check]:
    """Whether lanes have the numbers of 0.1.0, or a program of 0.1.0 tries to work where lanes count."""
    return (yield from _found("lanes", settings, _former, "no lane has a number of 0.1.0", _to_upgrade))


def _former(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    keys = [QueueKeys(settings.namespace, name) for name in names]
    found = yield Pipeline([*map(calls.are_numbered, keys), *map(policy_calls.configured, keys)])
    said: list[str | UnreachableQueue] = []
    for name, are_numbered, (entry, _) in zip(names, found[: len(keys)], found[len(keys) :], strict=True):
        if not are_numbered:
            said.append(f"{name}: {NUMBERED_BEFORE}")
        elif marked_anew(entry) != entry:
            said.append(f"{name}: {DECLARED_BEFORE}")
    return said


def _to_upgrade(said: Sequence[str]) -> str:
    advice: list[str] = []
    if any(words.endswith(NUMBERED_BEFORE) for words in said):
        advice.append(
            "the first program of this version that sends to the queue, or claims from it, renumbers them: "
            "upgrade all programs of the queue, since those of 0.1.0 get errors from then on"
        )
    if any(words.endswith(DECLARED_BEFORE) for words in said):
        advice.append("upgrade that program; `rq-dlq policy set QUEUE … --pin` gives it a plainer error")
    return "; ".join(advice)


def uncharged(settings: BrokerSettings) -> Steps[Check]:
    """Whether messages fail repeatedly without a charge, so that no budget ends them."""
    well = "no message fails repeatedly without a charge"
    advice = "`rq-dlq msg explain QUEUE ID` says why a message fails"
    return (yield from _found("uncharged", settings, _uncharged, well, lambda _: advice))


def _uncharged(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    queues = [QueueKeys(settings.namespace, name) for name in names]
    pages: list[Page] = yield Pipeline([
        page_calls.scan(
            keys, "scheduled", after=page_calls.START, upto=page_calls.END, limit=READ, wanted=STORY
        )
        for keys in queues
    ])  # fmt: skip
    said: list[str | UnreachableQueue] = []
    for keys, page in zip(queues, pages, strict=True):
        for row in page.rows():
            times, failure = uncharged_of(row.state), last_failure(row.history)
            if times >= OFTEN:
                why = f" ({failure.cause})" if failure and str(failure.cause) else ""
                held = (yield from held_by(keys, failure.cause)) if failure else ""
                words = f"{row.id} failed {times} times in a row without a charge{why}{held and f': {held}'}"
                said.append(f"{keys.family}: {words}")
    return said


def calls_held(settings: BrokerSettings) -> Steps[Check]:
    """Whether workers have held for long as many messages as they handle at once, while others wait."""
    well = f"no messages wait for calls that take longer than {span(LONG)}"
    advice = "a timeout of the handler ends a call that hangs, and its message is redelivered"
    return (yield from _found("calls", settings, _calls_held, well, lambda _: advice))


def _calls_held(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    found = yield from busy(settings.namespace)
    long = [name for name in names if name in found and found[name].is_held_long]
    asked = [queue_calls.stats(QueueKeys(settings.namespace, name), name) for name in long]
    told: list[tuple[int, QueueStats]] = (yield Pipeline(asked)) if asked else []
    return [f"{one.name}: {one.ready:,} ready; {found[one.name]}" for _, one in told if one.ready]


def unsent(settings: BrokerSettings) -> Steps[Check]:
    """Whether messages were not sent after the commits of their transactions, in a Django project."""
    found = [one for one in (yield from processes(settings.namespace)) if one.unsent]
    if not found:
        return Check("commits", "ok", "no process has failed to send after a commit within a day")
    said = [
        f"{one.process} lost {many(one.unsent, 'message')}, the last {span(one.ago)} ago" for one in found
    ]
    advice = "the logs of these processes name them, and why; an outbox would have kept them"
    return Check("commits", "warn", _few(said), advice)


def ignored(settings: BrokerSettings) -> Steps[Check]:
    """Whether queues ignore keys or dependencies, or have none to heed; examines a few messages of each."""
    well = "no queue ignores keys or dependencies of its first messages"
    return (yield from _found("ignored", settings, _ignored, well, _heeding))


def _heeding(said: Sequence[str]) -> str:
    advice: list[str] = []
    if ignored := [one for one in said if " ignores " in one]:
        options = [f"`{option}`" for of, option in HEEDED_BY.items() if any(of in one for one in ignored)]
        advice.append(f"`rq-dlq policy set QUEUE` with {' or '.join(options)} uses them")
    if len(ignored) < len(said):
        advice.append("a breaker counts only messages that are sent with dependency=...")
    return "; ".join(advice)


def _ignored(settings: BrokerSettings, names: Sequence[str]) -> Steps[list[str | UnreachableQueue]]:
    keys = [QueueKeys(settings.namespace, name) for name in names]
    heeded: list[set[Of]] = yield Pipeline([queue_calls.heeded(one) for one in keys])
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


def _found(
    name: str,
    settings: BrokerSettings,
    read: Callable[[BrokerSettings, Sequence[str]], Steps[list[str | UnreachableQueue]]],
    well: str,
    advice: Callable[[Sequence[str]], str],
) -> Steps[Check]:
    """A check of all queues.

    Args:
        read: the findings of some queues.
        well: what is said if there are none.
    """
    said = yield from _of_all(settings, partial(read, settings))
    return Check(name, "warn", _few(said), advice(said)) if said else Check(name, "ok", well)


def _of_all(
    settings: BrokerSettings, read: Callable[[Sequence[str]], Steps[list[R | UnreachableQueue]]]
) -> Steps[list[R]]:
    """What is read of all queues, without those that cannot be read."""
    families: list[str] = yield queue_calls.registered(settings.namespace)
    found = (yield from each_queue(families, read)) if families else []
    return [one for one in found if not isinstance(one, UnreachableQueue)]


def _few(said: Sequence[str]) -> str:
    """The first findings in one line: they quote keys and dependencies, which senders choose."""
    more = len(said) - SHOWN
    return "; ".join(map(visible_line, said[:SHOWN])) + (f"; and {many(more, 'other')}" if more > 0 else "")
