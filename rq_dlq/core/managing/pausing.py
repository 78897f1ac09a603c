"""Managing a queue or a lane: pause, resume and limit it; reset the totals."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.keyed import outages
from rq_dlq.core.keyed.firsts import warn_if_misspelt
from rq_dlq.core.managing import calls
from rq_dlq.core.opening import ensure_open
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import behind
from rq_dlq.core.queues.queue import only_live
from rq_dlq.core.queues.who import act as act_of
from rq_dlq.core.queues.who import who
from rq_dlq.core.steps import senders
from rq_dlq.core.steps.driving import beside
from rq_dlq.core.steps.replies import ERRORS, Word
from rq_dlq.core.steps.step import seed
from rq_dlq.errors import InvalidInput
from rq_dlq.policy.per_key import MOST_SEATS
from rq_dlq.values import outage
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.flags import check_flag
from rq_dlq.values.key import packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.key import Of


def set_paused(
    queue: QueueState[Any], *, paused: bool, until: datetime | Duration | None = None, by: str | None = None
) -> Steps[bool]:
    """Pause deliveries, or resume them; returns whether that changed anything."""
    end, name = until_of(until), who(by)
    user = yield from _begin(queue, _user, what="pause", opens=paused)
    changed: Word = yield calls.pause(queue.keys, paused=paused, until=end, by=name, user=user)
    _refuse_past(changed, until)
    return bool(changed)


def set_lane_paused(
    queue: QueueState[Any],
    of: Of,
    text: str,
    *,
    paused: bool,
    until: datetime | Duration | None = None,
    close: bool = False,
    by: str | None = None,
) -> Steps[bool]:
    """Pause the messages of a key or a dependency, or resume them; returns whether that changed anything.

    Raises:
        InvalidInput: the end of the pause has passed; or the dependency counts as down, and `close` is False.
    """
    packed(text, of)  # raises if it cannot be one
    check_flag(close, "close")
    end, name = until_of(until), who(by)
    user = yield from _begin(queue, _user, what="pause", opens=paused)
    call = calls.pause_lane(queue.keys, of, text, paused=paused, until=end, close=close, by=name, user=user)
    changed: Word = yield call
    _refuse_past(changed, until)
    if changed is Word.DOWN:
        at, found = yield from outages.read(queue, text)
        raise ERRORS[changed](
            f"{queue.name}: {outage.what(found, at)}. It probes by itself, and there is nothing to do; "
            "pass close=True to let its messages in now: then their failures are charged, and for ten "
            "minutes they do not count against it"
        )
    if paused and changed and of == "dependency":
        yield from warn_if_misspelt(queue, text)
    return bool(changed)


def probe(queue: QueueState[Any], dependency: str, *, by: str | None = None) -> Steps[bool]:
    """Let one message through that waits for a dependency; returns whether any waits.

    Raises:
        InvalidMessage: this cannot be a dependency.
        InvalidInput: the queue is a dead-letter or expiry queue.
    """
    packed(dependency, "dependency")
    return behind(queue, lambda _: _probe(queue, dependency, by))


def _probe(queue: QueueState[Any], dependency: str, by: str | None) -> Steps[bool]:
    only_live(queue, "probe")
    act = yield from act_of("probed", by, chosen=f"dependency {dependency}")
    call = partial(calls.probe_lane, seed=seed(), act=act)
    return (yield from senders.once(queue.client.senders, queue.keys, call, dependency)) > 0


def _refuse_past(changed: Word, until: datetime | Duration | None) -> None:
    if changed is Word.PAST:
        raise ERRORS[changed](f"until {until}: that has passed. Pass a later time, or a duration")


def set_limit(queue: QueueState[Any], key: str, limit: int | None, *, by: str | None = None) -> Steps[bool]:
    """Give a key a limit of its own, or take it back; returns whether that changed anything.

    Raises:
        InvalidInput: the limit is not valid, the queue's rule is not a limit, or it is a dead-letter or
            expiry queue.
    """
    packed(key)  # raises if it cannot be one
    if limit is not None and (type(limit) is not int or not 1 <= limit <= MOST_SEATS):
        raise InvalidInput(
            f"limit is {shown(limit)}. Pass a whole number, 1 to {MOST_SEATS}, or None to remove it"
        )
    name = who(by)
    user = yield from _begin(queue, _user, what="limit", opens=limit is not None)
    changed: Word = yield calls.limit_lane(queue.keys, key, limit, by=name, user=user)
    if changed is Word.UNLIMITED:
        raise ERRORS[changed](
            f"{queue.name} does not limit keys, so a key cannot have its own limit: pass "
            "per_key=PerKey(limit=8), for example, to broker.queue, or "
            f'`rq-dlq policy set {queue.name} --per-key "limit 8" --pin`'
        )
    return bool(changed)


def _begin(
    queue: QueueState[Any], first: Callable[[], Steps[str]], *, what: str, opens: bool = True
) -> Steps[str]:
    """Check whether a verb applies to the name, and open the queue; the result of `first`."""

    def begin(_: object) -> Steps[str]:
        only_live(queue, what)
        if not opens:  # a full server cannot register a name
            return first()
        return _first_of(beside(first(), ensure_open(queue)))

    return behind(queue, begin)


def _first_of(steps: Steps[list[Any]]) -> Steps[Any]:
    return (yield from steps)[0]


def _user() -> Steps[str]:
    return (yield queue_calls.whoami())  # type: ignore[no-any-return]


def until_of(until: datetime | Duration | None) -> calls.Until:
    """When a pause ends.

    Raises:
        InvalidDuration: it is not a duration of a millisecond or more.
        InvalidInput: the time has no zone.
    """
    if until is None:
        return calls.NO_END
    if not isinstance(until, datetime):
        return calls.Until(after=milliseconds(until, name="until", minimum=1))
    if until.tzinfo is None:
        raise InvalidInput(f"until {shown(until)}: pass a datetime with a time zone, or a duration")
    return calls.Until(ends=round(until.timestamp() * 1000))


def reset(queue: QueueState[Any], by: str | None = None) -> Steps[int]:
    """Set the totals to zero; returns how many messages are in the queue."""
    act = yield from _begin(queue, lambda: act_of("reset", by), what="reset")
    return (yield calls.reset(queue.keys, act=act))  # type: ignore[no-any-return]
