"""The choice of messages by ids, states and conditions, read from the user's arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rq_dlq.core.queues.queue import check_limit, places_of
from rq_dlq.errors import InvalidInput
from rq_dlq.filters import Filter
from rq_dlq.filters._facts import MessageFacts
from rq_dlq.values.counts import DIED, ErrorGroup
from rq_dlq.values.durations import Duration, milliseconds, shown
from rq_dlq.values.failure import epoch_milliseconds, moment
from rq_dlq.values.fingerprint import is_of
from rq_dlq.values.key import packed
from rq_dlq.values.message import DeadLetter
from rq_dlq.values.names import check_id
from rq_dlq.values.readable import utc
from rq_dlq.values.wanted import NOTHING, RECORD, STATE, STORY

if TYPE_CHECKING:
    from rq_dlq.core.choosing.cutoff import Cutoff
    from rq_dlq.core.queues.queue import QueueName
    from rq_dlq.core.steps.call import Place
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.message import Received
    from rq_dlq.values.wanted import Wanted

Order: TypeAlias = Literal["oldest", "newest"]
PLACES = ("ready", "scheduled", "leased", "dead", "expired")
ORDERS = ("oldest", "newest")
REASONS = (*DIED, "expired")
_FINGERPRINT = re.compile("[0-9a-f]{6}|[0-9a-f]{12}|lapsed|expired")


class Choice:
    """The choice of messages; None: no condition. A message must meet all conditions.

    Args:
        places: the states to look in, in this order; None: those in which the messages of a queue wait.
        ids: only messages with these ids.
        where: a condition in words.
        key: the key that they were sent with.
        group: a kind of failure, or its fingerprint; the first six digits stand for all kinds of one class of
            error at one place. This and the following are conditions on dead letters.
        reason: why they died.
        since: when they died at the earliest; kept in milliseconds of the server's clock.
        older_than: how long ago they died at least; kept in milliseconds.
        limit: the most messages, the first in their order.
        order: which messages are first.
        all: the caller means every message; see `check_bulk`.

    Attributes:
        indexed: the index of groups has the dead letters of `group`, which is a whole fingerprint.
        cutoffs: the moment of a plan, by the queue's family: only messages that were there. Empty: no plan.
        later: with them: only messages that have come since.

    Raises:
        InvalidInput: an argument is not valid, or `all` has a condition beside it.
        FilterError: `where` is not valid.
    """

    def __init__(
        self,
        *,
        places: Sequence[Place] | None = None,
        ids: Sequence[str] | None = None,
        where: str | None = None,
        key: str | None = None,
        group: str | ErrorGroup | None = None,
        reason: str | None = None,
        since: datetime | None = None,
        older_than: Duration | None = None,
        limit: int | None = None,
        order: Order = "oldest",
        all: bool = False,
    ) -> None:
        if order not in ORDERS:
            raise InvalidInput(f"order {shown(order)}: pass 'oldest' or 'newest'")
        check_limit(limit)
        self.places = _places_of(places)
        self.ids = _ids_of(ids)
        self.where = None if where is None else Filter.parse(where)
        self.key = None if key is None else _key_of(key)
        self.group = _group_of(group)
        self.reason = reason_of(reason)
        self.since = _moment_of(since)
        self.older_than = None if older_than is None else milliseconds(older_than, name="older_than")
        self.indexed = False
        self.cutoffs: Mapping[str, Cutoff] = {}
        self.later = False
        self.limit = limit
        self.newest = order == "newest"
        self._deliberate = all
        if all and (self.ids is not None or self.conditional):
            raise InvalidInput("all=True chooses every message: leave it out, or leave out the condition")

    @property
    def in_words(self) -> str:
        """The conditions in words, without the places."""
        since = self.since and moment(self.since).astimezone(UTC)
        conditions = {
            "ids": self.ids and f"{len(self.ids):,}",
            "key": self.key,
            "group": self.group,
            "reason": self.reason,
            "since": since and utc(since),
            "older than": self.older_than and f"{self.older_than} ms",
            "where": self.where and self.where.text,
            "limit": self.limit and f"{self.limit:,}",
        }
        words = [f"{name} {value}" for name, value in conditions.items() if value]
        return ", ".join([*words, "newest first"] if self.newest else words) or "all"

    @property
    def _of_dead_letters(self) -> bool:
        """Whether it has a condition that only dead letters meet."""
        conditions = (self.group, self.reason, self.since, self.older_than)
        return any(condition is not None for condition in conditions)

    @property
    def conditional(self) -> bool:
        """Whether it has any condition."""
        return self.where is not None or self.key is not None or self._of_dead_letters

    @property
    def is_all(self) -> bool:
        """Whether it chooses every message in its states."""
        return self.ids is None and self.limit is None and not self.conditional

    def check_bulk(self, verb: str) -> None:
        """Check that a verb that changes messages has a condition: one that is None is an accident.

        Raises:
            InvalidInput: there is no condition, no state, no limit, and not `all`.
        """
        if self.is_all and self.places is None and not self._deliberate:
            message = (
                f"{verb} without a condition would apply to every message, so nothing was done: "
                "pass a condition (ids, where, …), or all=True to mean that"
            )
            raise InvalidInput(message)

    @property
    def takes_leased(self) -> bool:
        """Whether it also means messages that are being processed: its states do not exclude them."""
        return self.places is None or "leased" in self.places

    @property
    def only_group(self) -> bool:
        """Whether it has no condition, except perhaps the group."""
        others = (self.ids, self.where, self.key, self.reason, self.since, self.older_than)
        return all(condition is None for condition in others)

    @property
    def sparse(self) -> bool:
        """Whether it may leave out messages of the ranges that are read for it."""
        by_reading = self.group is not None and not self.indexed
        return by_reading or self.where is not None or self.key is not None or self.reason is not None

    def of_ids(self, ids: Sequence[str]) -> Choice:
        """The same among these messages."""
        choice = copy(self)
        choice.ids = ids
        return choice

    def of_group(self, name: str) -> Choice:
        """The same among the dead letters of one group, which the index of groups has."""
        choice = copy(self)
        choice.group, choice.indexed = name, True
        return choice

    def at(self, cutoffs: Mapping[str, Cutoff], *, later: bool = False) -> Choice:
        """The same among the messages that were there at the moment of a plan, or that have come since."""
        choice = copy(self)
        choice.cutoffs, choice.later = cutoffs, later
        if later:
            choice.limit = None
        return choice

    @property
    def needs(self) -> Wanted:
        """The parts of messages that the conditions read."""
        needs = NOTHING if self.where is None else self.where.needs
        if self.key is not None:
            needs |= RECORD
        if self._of_dead_letters:
            needs |= STATE if self.group is None or self.indexed else STORY
        return needs

    def takes(self, message: Received[Any], now: int, masks: Masks | None = None) -> bool:
        """Whether a message meets the conditions.

        Args:
            now: the server's time in milliseconds.
            masks: the conditions see the text that these leave visible; None: all of it.
        """
        if self._of_dead_letters and not (isinstance(message, DeadLetter) and self._takes_dead(message, now)):
            return False
        if self.key is not None and MessageFacts(message, now, masks).field("key") != self.key:
            return False
        return self.where is None or self.where.takes(message, now, masks)

    def _takes_dead(self, letter: DeadLetter[Any], now: int) -> bool:
        died = round(letter.died_at.timestamp() * 1000)
        return (
            (self.since is None or died >= self.since)
            and (self.older_than is None or died <= now - self.older_than)
            and (self.reason is None or letter.reason == self.reason)
            and (self.group is None or is_of(letter.fingerprint, self.group))
        )

    def places_in(self, queue: QueueName) -> list[Place]:
        """The states to look in for a queue; for a dead-letter or expiry queue only its own."""
        if self.places is None:
            return places_of(queue)
        return [place for place in self.places if queue.part in {"live", place}]

    def check_places(self, queue: QueueName) -> None:
        """Check that the queue has the places.

        Raises:
            InvalidInput: it is a dead-letter or expiry queue, and does not hold these states.
        """
        held = {"dead", "expired"} if queue.view else {queue.part}
        other = [place for place in self.places or () if place not in held]
        if other and (queue.view or queue.part != "live"):
            family = "its queues by their names" if queue.view else repr(queue.keys.family)
            what = "dead or expired" if queue.view else queue.part
            message = f"{queue.name!r} has only {what} messages: for {other[0]} ones, select from {family}"
            raise InvalidInput(message)


def _places_of(places: Sequence[Place] | None) -> Sequence[Place] | None:
    if places is None:
        return None
    if (
        isinstance(places, str)
        or not isinstance(places, Sequence)
        or any(place not in PLACES for place in places)
    ):
        raise InvalidInput(f"places {shown(places)}: pass a list of {', '.join(PLACES)}")
    return tuple(dict.fromkeys(places))


def _ids_of(ids: Sequence[str] | None) -> Sequence[str] | None:
    if ids is None:
        return None
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidInput(f"ids is a list of message ids, not {shown(ids)}; for a single one write ids=[…]")
    found = tuple(ids)
    for message_id in found:
        check_id(message_id)
    return found


def _group_of(group: str | ErrorGroup | None) -> str | None:
    if isinstance(group, ErrorGroup):
        return group.fingerprint
    if group is None or (isinstance(group, str) and is_group(group)):
        return group
    message = (
        f"group {shown(group)}: pass an ErrorGroup, or all twelve digits of its fingerprint, or the first six"
    )
    raise InvalidInput(message)


def _key_of(key: object) -> str:
    packed(key)  # raises if it cannot be one
    return str(key)


def is_group(text: str) -> bool:
    """Whether this may name a group: a fingerprint, or its first six digits."""
    return _FINGERPRINT.fullmatch(text) is not None


def reason_of(reason: str | None) -> str | None:
    """A reason why messages die, or None.

    Raises:
        InvalidInput: the reason does not exist.
    """
    if reason is not None and reason not in REASONS:
        raise InvalidInput(f"reason {shown(reason)}: pass one of {', '.join(REASONS)}")
    return reason


def _moment_of(since: datetime | None) -> int | None:
    """Milliseconds, rounded up."""
    if since is None:
        return None
    if not isinstance(since, datetime) or since.tzinfo is None:
        message = f"since {shown(since)}: pass a datetime with a time zone, such as datetime.now(UTC)"
        raise InvalidInput(message)
    return epoch_milliseconds(since)
