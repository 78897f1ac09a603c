"""How many messages are chosen: in all, for each value of a header, by the cause of their deaths."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.choosing.reading import among, leased_of, read
from rq_dlq.core.choosing.rows import following
from rq_dlq.core.groups import calls as group_calls
from rq_dlq.core.groups.index import NEW_WITHIN, index_groups
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.steps.driving import together
from rq_dlq.core.steps.step import WINDOW, Pipeline, chunks
from rq_dlq.filters._facts import MessageFacts
from rq_dlq.values.counts import ErrorGroup, GroupCount
from rq_dlq.values.durations import Duration, milliseconds
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.wanted import RECORD, STORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq.core.choosing.choice import Choice
    from rq_dlq.core.choosing.rows import Found, Reading
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.call import Place
    from rq_dlq.core.steps.step import Steps


def count(queue: QueueState[Any], choice: Choice) -> Steps[int]:
    """The number of chosen messages."""
    return among(queue, choice, lambda members: rows_of(read(members, choice)))


def count_leased(members: Sequence[QueueState[Any]], choice: Choice) -> Steps[int]:
    """The number of chosen messages that are being processed, which no verb changes."""
    return rows_of(leased_of(members, choice))


class LeasedCount:
    """Counts the leased messages of a choice while the waiting ones are read: `begin`, `found`, `end`.

    Those of a condition are read first, so that only they are remembered. Of ids, only those that were not
    found waiting are looked for, at the end.

    Args:
        members: the queues behind the name.
        places: where they were claimed; None: anywhere.
    """

    def __init__(
        self, members: Sequence[QueueState[Any]], choice: Choice, places: Sequence[Place] | None = None
    ) -> None:
        self._members = members
        self._choice = choice
        self._places = places
        self._leased: set[tuple[str, str]] = set()  # names of queues, and ids
        self._named: set[tuple[str, str]] = set()  # those that were found, of a choice with ids
        self._found = 0

    def begin(self) -> Steps[None]:
        """Read those of a condition."""
        if self._choice.ids is None:
            yield from self._read(self._choice)

    def found(self, page: Found) -> None:
        """Note messages that wait."""
        waiting = [(page.queue.name, message_id) for message_id in page.ids]
        self._found += len(waiting)
        self._leased.difference_update(waiting)
        if self._choice.ids is not None:
            self._named.update(waiting)

    def end(self) -> Steps[int]:
        """How many there are, as far as the limit of the choice leaves room for them."""
        choice = self._choice
        if choice.ids is not None and self._members:
            first = self._members[0]
            ids = [one for one in choice.ids if first.viewed or (first.name, one) not in self._named]
            if ids:  # the queues of a view may share some
                yield from self._read(choice.of_ids(ids))
                self._leased -= self._named
        number = len(self._leased)
        return number if choice.limit is None else min(number, choice.limit - self._found)

    def _read(self, choice: Choice) -> Steps[None]:
        reading = leased_of(self._members, choice)
        while page := (yield from following(reading)):
            if self._places is None or page.place in self._places:
                self._leased.update((page.queue.name, message_id) for message_id in page.ids)


def rows_of(reading: Reading) -> Steps[int]:
    """How many messages a reading finds."""
    total = 0
    while page := (yield from following(reading)):
        total += len(page.rows)
    return total


def count_by(queue: QueueState[Any], choice: Choice, header: str) -> Steps[dict[str | None, int]]:
    """How many have each value of a header, key or dependency (None: without), the most frequent first."""
    return among(queue, choice, partial(_count_by, queue, choice, header))


def _count_by(
    queue: QueueState[Any], choice: Choice, header: str, members: Sequence[QueueState[Any]]
) -> Steps[dict[str | None, int]]:
    reading = read(members, choice, RECORD)
    counted: Counter[str | None] = Counter()
    while page := (yield from following(reading)):
        counted.update(_header(MessageFacts(message, 0, queue.masks), header) for message in page.messages)
    return dict(counted.most_common())


def _header(facts: MessageFacts, name: str) -> str | None:
    found = facts.headers.get(name)
    if found is not None or name not in {"key", "dependency"}:
        return found
    value = facts.field(name)
    return value if isinstance(value, str) else None


def groups(
    queue: QueueState[Any], choice: Choice, new_within: Duration = NEW_WITHIN
) -> Steps[list[ErrorGroup]]:
    """The dead letters among them by their cause, the largest group first.

    Raises:
        InvalidDuration: `new_within` is not valid.
    """
    within = milliseconds(new_within, name="new_within")
    return among(queue, choice, partial(_groups, choice, within))


def _groups(choice: Choice, within: int, members: Sequence[QueueState[Any]]) -> Steps[list[ErrorGroup]]:
    found: dict[str, ErrorGroup] = {}
    counted: list[ErrorGroup] = []
    if choice.limit is not None:
        counted = yield from _counted(members, choice, within)
    else:
        for some in chunks(members, WINDOW):
            each = yield from together([_of_one(member, choice, within) for member in some])
            counted += [group for own in each for group in own]
    for group in counted:
        known = found.get(group.fingerprint)
        found[group.fingerprint] = group if known is None else known + group
    return sorted(found.values(), key=lambda group: (-group.count, group.fingerprint))


def _of_one(queue: QueueState[Any], choice: Choice, within: int) -> Steps[list[ErrorGroup]]:
    if choice.only_group and choice.places_in(queue) == ["dead"]:
        found = yield from index_groups(queue.keys, queue.codec, within, choice.group or "")
        if found is not None:
            return found
    return (yield from _counted([queue], choice, within))


def _counted(members: Sequence[QueueState[Any]], choice: Choice, within: int) -> Steps[list[ErrorGroup]]:
    """The same by reading the dead letters; the groups of each queue of a view."""
    found: dict[tuple[str, str], GroupCount] = {}
    cleared: dict[tuple[str, str], int | None] = {}
    muted: dict[tuple[str, str], tuple[int, int] | None] = {}
    now = 0
    reading = read(members, choice, STORY)
    while page := (yield from following(reading)):
        keys = page.queue.keys
        now = now or (yield queue_calls.stats(keys, page.queue.name))[0]
        for letter in page.messages:
            if not isinstance(letter, DeadLetter):
                continue
            key = (keys.family, letter.fingerprint)
            if key not in found:
                found[key] = GroupCount(letter.fingerprint, first=letter.due, last=letter.due)
                reads = (group_calls.cleared(keys, key[1]), group_calls.muted(keys, key[1]))
                cleared[key], muted[key] = (yield Pipeline(reads)) if page.place == "dead" else (None, None)
            found[key].add(letter, now)
    for key, count in found.items():
        count.cleared, count.muted = cleared[key], muted[key]
    return [count.group(now, within) for count in found.values()]
