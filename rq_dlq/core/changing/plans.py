"""Plans: what a verb would do, fixed when it was asked for; carried out, it does that once, and nothing more.

A question ("12 dead letters will be removed") and its answer lie seconds or minutes apart, in which messages
die, are repaired and come back. So an operator confirms a `Plan`, not a condition: `dry_run=True` of a verb
makes it, `plan.carry_out(by=…)` does what it says. The command line, the page and the assistant use the same
object. What each verb changes is fixed like this:

| verb | its messages |
|---|---|
| `purge` | a plan, of dead, expired and waiting ones |
| `redrive` of dead letters, as a job or at once | a plan; the job is begun with it |
| `edit` (a redrive that edits) | a plan, which has tried the edit; the page carries out that edit |
| `expire` | a plan |
| `dead-letter` | a plan |
| `move` | a plan |
| `copy` | a plan |
| `prioritize` | a plan, of those that have another priority |
| `deliver-now` | a plan |
| `mute` | a group, by its name, at that moment; no message is changed |
| `cancel` | one message, by its id: the command line asks nothing |
| `delete` | the whole queue, whatever is in it then: the question says so |

Without `dry_run` there was no question, so a verb takes those that are there when the call begins. Messages
that are named by their ids are not asked about either.

- *A plan has the messages that were there when it was made, and have stayed.* Of dead and expired ones those
  whose time is not after its own, of waiting ones those that were born up to the last birth of the queue.
  Birth and time of death alone do not tell: what was redriven, moved or copied since has an old birth, and
  its history says when it came; an undo or an import returns old times of death, and numbers them
  (`returned`). The client reads only such messages, and each call decides it again (`Choice.act`).
- *Conditions are judged at the time of the plan*: `older_than="30d"` means the same messages a minute later.
  Of a choice with a limit the ids are kept, so that one that is gone is not replaced by the next.
- *Never more than it said*: the verbs count what the plan has changed in its register. Within the millisecond
  of the plan, or if the clock steps back, messages that were shown cannot be told from others; then the
  number still holds.
- *It is good once.* The register is that of a sender, whose nonce is the mark of the plan
  (`core/steps/senders.py`), for an hour after the last call; an older plan is refused. The last call of a
  plan says that it is done, and how it differed. From then on each call gets that reply: of a double click,
  of a client that lost a reply, of another one that confirmed the same page. Two that carry it out at the
  same time share its count; both are told the sum. The register of a redrive has the id of its job. If a call
  was cut off by a crash, its messages are not in the count.
- *What differed is told*: "11 of 12 removed; 1 is not there any more; 6 more have died since, and stay"
  (`CarriedOut`). Of a shared name, also what has died in a queue that has the name since: it stays, too.
- *A form of the page carries its plan*, signed with the key of the sessions: a form without one, or with
  another, does nothing. No state is kept for pages that are not confirmed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from rq_dlq._keys import MoreKeys
from rq_dlq.core.changing import calls
from rq_dlq.core.changing.calls import PlanEnd
from rq_dlq.core.choosing.counting import LeasedCount, rows_of
from rq_dlq.core.choosing.cutoff import DIED, cutoff
from rq_dlq.core.choosing.reading import among, read
from rq_dlq.core.choosing.rows import following
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.call import Sender
from rq_dlq.core.steps.driving import beside
from rq_dlq.core.steps.step import Pipeline
from rq_dlq.errors import BrokerRefused, InvalidInput
from rq_dlq.values.changed import CarriedOut
from rq_dlq.values.record import FLAGS, PRIORITY
from rq_dlq.values.wanted import HEAD, NOTHING

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.choosing.cutoff import Cutoff
    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.call import Call, Place
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.values.changed import Changed, Refusal

Verb: TypeAlias = "Callable[..., Steps[Changed]]"
"""A verb of `changing`, with its own arguments, that takes a choice and a plan."""
NONCE: Final = 9  # random bytes of a mark
VALID: Final = 3_600_000  # milliseconds: as long as the register is kept after the last call
LAST: Final = 1  # the number of all calls of a plan (lua/choice.lua)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan.

    Attributes:
        verb: one of `TAKES`, or copy.
        mark: of this plan.
        choice: its messages.
        chosen: these in words.
        eligible: how many.
        leased: how many more are chosen, but are being processed.
        expired, gone, refused, refusals: of a redrive; see `rq_dlq.Plan`.
        died: its messages are dead or expired.
    """

    verb: str
    mark: str
    choice: Choice
    chosen: str
    eligible: int
    leased: int = 0
    expired: int = 0
    gone: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    died: bool = False

    @property
    def cutoffs(self) -> Mapping[str, Cutoff]:
        """When it was made, by the queues' families."""
        return self.choice.cutoffs

    @property
    def at(self) -> int:
        """When it was made, milliseconds."""
        return max((one.at for one in self.cutoffs.values()), default=0)

    def check_age(self, now: int) -> None:
        """Check that its register still exists if it was carried out.

        Raises:
            InvalidInput: it is too old.
        """
        if now > self.at + VALID:
            raise InvalidInput("the plan is more than an hour old, so nothing was done: make a new one")


def new_mark() -> str:
    """A mark that no other plan has."""
    return secrets.token_urlsafe(NONCE)


def now_of(members: Sequence[QueueName], choice: Choice) -> Steps[Choice]:
    """The choice among the messages that are there now."""
    made: dict[str, Cutoff] = {}
    for member in members:
        made[member.keys.family] = yield from cutoff(member)
    return choice.at(made)


def plan(
    queue: QueueState[Any], choice: Choice, verb: str, places: Sequence[Place], priority: int | None = None
) -> Steps[Planned]:
    """Plan a verb.

    Args:
        places: where the messages wait that it changes.
        priority: messages that have it are not changed.
    """
    return among(queue, choice, partial(_plan, queue, choice, verb, places, priority=priority))


def _plan(
    queue: QueueState[Any],
    choice: Choice,
    verb: str,
    places: Sequence[Place],
    members: Sequence[QueueState[Any]],
    *,
    priority: int | None,
) -> Steps[Planned]:
    chosen = yield from now_of(members, choice)
    leased = LeasedCount(members, chosen)
    ids: list[str] = []
    eligible = 0
    reading = read(members, chosen, NOTHING if priority is None else HEAD, places)
    _, page = yield from beside(leased.begin(), following(reading))
    while page is not None:
        leased.found(page)
        rows = [row for row in page.rows if priority is None or _priority_in(row.record) != priority]
        eligible += len(rows)
        if choice.limit is not None:
            ids += [row.id for row in rows]
        page = yield from following(reading)
    if choice.limit is not None:  # the first of those that were there, not of those that are left
        chosen = chosen.of_ids(ids)
    in_work = yield from leased.end()
    died = not {*places}.intersection(choice.places_in(queue)) - DIED
    return Planned(
        verb=verb,
        mark=new_mark(),
        choice=chosen,
        chosen=choice.in_words,
        eligible=eligible,
        leased=in_work,
        died=died,
    )


def _priority_in(record: bytes) -> int | None:
    return record[FLAGS] & PRIORITY if len(record) > FLAGS else None


class Carrying:
    """A plan that is being carried out: it makes the calls of a verb, and in each queue the last call.

    Attributes:
        last: makes the last call from its sender; the verb sets it.
    """

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.last: Callable[..., Call[Any]]
        self._done: dict[str, int] = {}

    def sender(self, keys: QueueKeys, end: str = "") -> Sender:
        """The sender of all its calls to a queue."""
        others = sum(number for other, number in self._done.items() if other != keys.family)
        text = f"{self.planned.cutoffs[keys.family]} {max(0, self.planned.eligible - others)}{end}"
        return Sender(MoreKeys(keys, {"sender": keys.sender(self.planned.mark)}), LAST, text)

    def once(self, keys: QueueKeys, call: Callable[..., Call[Any]], **options: Any) -> Steps[Any]:
        """Make a call, as `senders.once` does."""
        result: Any = yield call(self.sender(keys), **options)
        changed: Changed = getattr(result, "changed", result)
        self._done[keys.family] = self._done.get(keys.family, 0) + changed
        return result

    def end(self, keys: QueueKeys, later: int, leased: int) -> Steps[PlanEnd]:
        """Make the last call in a queue; the end that is noted there."""
        sender = self.sender(keys, f" {later} {leased}")
        try:
            end: PlanEnd = yield replace(self.last(sender), reader=calls.read_end)
        except BrokerRefused:  # the server is full: it is done, but a repetition cannot know that
            return PlanEnd(self._done.get(keys.family, 0), later, leased)
        return end


def carry_out(
    queue: QueueState[Any], planned: Planned, verb: Verb, places: Sequence[Place]
) -> Steps[CarriedOut]:
    """Carry out a plan; if that was done before, only return the answer of then.

    Args:
        places: as for `plan`.

    Raises:
        InvalidInput: it is too old.
    """
    return among(queue, planned.choice, partial(_carry_out, queue, planned, verb, places))


def _carry_out(
    queue: QueueState[Any],
    planned: Planned,
    verb: Verb,
    places: Sequence[Place],
    members: Sequence[QueueState[Any]],
) -> Steps[CarriedOut]:
    families = {one.keys.family: one.keys for one in members}
    carrying = Carrying(planned)
    asks = [calls.register(carrying.sender(keys)) for keys in families.values()]
    (now, _), *before = yield Pipeline([queue_calls.stats(queue.keys, queue.name), *asks])
    ends: list[PlanEnd] = [end for end in before if end is not None]
    if ends:
        return _told(planned, ends)
    planned.check_age(now)
    changed = yield from verb(planned.choice, plan=carrying)
    later = yield from count_later(queue, planned.choice, places)
    for keys in families.values():
        ends.append((yield from carrying.end(keys, later, changed.leased)))  # noqa: PERF401 - a step
    return _told(planned, ends)


def count_later(queue: QueueState[Any], choice: Choice, places: Sequence[Place]) -> Steps[int]:
    """How many messages of a plan's choice have come since; all of a queue that has the name since."""
    since = choice.at(choice.cutoffs, later=True)
    return among(queue, since, lambda members: rows_of(read(members, since, NOTHING, places)))


def _told(planned: Planned, ends: Sequence[PlanEnd]) -> CarriedOut:
    """The answer; each of several queues has noted the last two numbers of all."""
    changed = sum(end.changed for end in ends)
    missing = planned.eligible - changed
    leased = min(missing, max(0, max((end.leased for end in ends), default=0) - planned.leased))
    return CarriedOut(
        verb=planned.verb, planned=planned.eligible, changed=changed, gone=missing - leased, leased=leased,
        later=max((end.later for end in ends), default=0), died=planned.died,
    )  # fmt: skip
