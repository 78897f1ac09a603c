"""Claiming from a view: the oldest dead letters first, whichever queue has them.

A call may touch only the keys of one queue, so none can keep an index of all letters under a shared name.
Clients look instead, by plain reads of each queue: the name of its dead letters, when the oldest of them
died, and whether leases have lapsed or messages have expired there. They remember the result as a hint, read
it again for the queues that they are about to claim from, and run verbs only there, the oldest letter first.
So a client claims the letters that it has seen in the order of their deaths.

- A claim that does not wait looks at all queues before it returns nothing.
- A claim that waits looks at a thousand queues per second, in turn. So with 10,000 queues a dead letter is
  claimed within about ten seconds, or twenty if its queue is new under the name, at 26 ms of CPU a second
  (894 with a call for each queue; `python -m tests.benchmarks.shared`).
- A claim of several letters takes them from at most a hundred queues, so it may return fewer than there are,
  but not fewer than a hundred.
- A damaged queue does not hold up the others. Its error is raised when these have no letters.
"""

from __future__ import annotations

from collections import Counter, deque
from heapq import nsmallest
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.queues import calls as queue_calls
from rq_dlq.core.queues.names import LOOKED_AT, shown
from rq_dlq.core.queues.queue import forget
from rq_dlq.core.queues.registry import in_use
from rq_dlq.core.settling.settle import release
from rq_dlq.core.steps.step import MAX_BLOCK, Pipeline, Steps, Wait, chunks
from rq_dlq.errors import BrokerRefused, MissingRights
from rq_dlq.values.names import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.queues.view_state import SeenMembers
    from rq_dlq.values.leased import Leased

D = TypeVar("D", bound="Leased[Any]")
SECOND = 1_000  # milliseconds
PER_SECOND = 1_000  # queues that a client checks: about 10 ms of its time
PER_CLAIM = 25  # members that each claim checks, so that among a few the order is exact
SOURCES = 100  # members that one claim takes dead letters from
TIMES = 10_000  # times of death that it compares


class MemberShare(NamedTuple):
    """The share of one member in a claim.

    Attributes:
        letters: how many dead letters it takes.
        oldest: the time of death of the first one that it leaves; None: none is left.
    """

    address: Address
    letters: int
    oldest: float | None


def claim_view(
    queue: QueueState[Any],
    claim_one: Callable[[QueueState[Any], int], Steps[list[D]]],
    count: int,
    *,
    wait: int,
    stopped: Callable[[], bool],
) -> Steps[list[D] | None]:
    """Claim the dead letters of a view that died first.

    A claim that does not wait finds nothing only if no member has dead letters. One that waits checks some
    members each second.

    Args:
        claim_one: claims dead letters of one member, up to a number; 0: only does overdue maintenance.

    Returns:
        The dead letters; None: there are none, and the name now also belongs to a queue.
    """
    left, thorough = wait, False
    live = queue.part == "live"
    sent_to = queue.keys["wake"] if live else queue.keys.silent  # a sender to the name makes it a queue's
    while True:
        thorough = thorough or queue.seen.looked is None
        looked = queue.seen.looked
        found = yield from claim_letters(queue, claim_one, count, thorough=thorough)
        if live and (not found or queue.seen.looked != looked) and (yield from in_use(queue.keys)):
            forget(queue)
            return found or None
        thorough = wait == 0 and not thorough
        if found or stopped() or (left <= 0 and not thorough):
            return found
        if not thorough:
            left -= yield Wait(sent_to, max(1, min(left, MAX_BLOCK)))


def claim_letters(
    queue: QueueState[Any],
    claim_one: Callable[[QueueState[Any], int], Steps[list[D]]],
    count: int,
    *,
    thorough: bool = False,
) -> Steps[list[D]]:
    """Claim the dead letters under a name that died first, without a wait.

    Args:
        thorough: check all members, otherwise the next ones and those known to have dead letters.
    """
    refused = yield from _look(queue, thorough=thorough)
    found = yield from _claim_oldest(queue, claim_one, count, refused)
    return sorted(found, key=lambda delivery: delivery.due)


def _claim_oldest(
    queue: QueueState[Any],
    claim_one: Callable[[QueueState[Any], int], Steps[list[D]]],
    count: int,
    refused: BrokerRefused | None,
) -> Steps[list[D]]:
    """Claim the oldest known dead letters, after overdue maintenance.

    Args:
        refused: why a member could not be checked.

    Raises:
        BrokerRefused: only members have dead letters where the server refuses to claim, or to check.
    """
    # Long: whatever fails on the way, what was claimed until then is kept for the next claim
    seen = queue.seen
    found: list[tuple[QueueState[Any], list[D]]] = []

    def take(address: Address, number: int) -> Steps[int]:
        nonlocal refused
        seen.overdue[address] = None  # if it fails
        member = queue.member(address)
        try:
            got = yield from claim_one(member, number)
        except MissingRights:
            raise
        except BrokerRefused as error:  # a damaged member must not hold up the others
            refused = error
            return 0
        seen.overdue.pop(address, None)
        found.append((member, got))
        return len(got)

    try:
        left, overdue = count, list(seen.overdue)
        for address in overdue:
            left -= yield from take(address, 0)
        refused = (yield from _look_at(queue, overdue, 0)) or refused
        most = len(found) + SOURCES  # overdue work does not count
        while left > 0 and len(found) < most and (shares := (yield from _shares(queue, left))):
            for share in shares:
                got = yield from take(share.address, share.letters)
                left -= got
                # A member that has fewer is skipped until the next check: its other dead letters rest.
                _note(seen, share.address, share.oldest if got == share.letters else None)
        yield from _release_last(found, -left)
    except BaseException:
        keep_for_next(queue, [delivery for _, got in found for delivery in got])
        raise
    if refused is not None and not any(got for _, got in found):
        raise refused
    return [delivery for _, got in found for delivery in got]


def _release_last(found: Sequence[tuple[QueueState[Any], list[D]]], surplus: int) -> Steps[None]:
    """Release the messages of claims with an unknown outcome beyond the number that this one asks for."""
    for member, deliveries in reversed(found):
        if surplus <= 0:
            return
        kept = max(0, len(deliveries) - surplus)
        surplus -= len(deliveries) - kept
        yield from release(member, [delivery._held for delivery in deliveries[kept:]], begun=False)
        del deliveries[kept:]


def keep_for_next(queue: QueueState[Any], deliveries: Sequence[Leased[Any]]) -> None:
    """Keep the tokens of a claim that failed part-way, so that the next claim resumes them."""
    claims = {one.token: Address(one.original_queue, one.part) for one in deliveries}
    for token, address in claims.items():
        if address.part == "live":
            queue.indeterminate_claims.note(token)
        else:
            queue.member(address).indeterminate_claims.note(token)
            queue.seen.overdue[address] = None


def _look(queue: QueueState[Any], *, thorough: bool) -> Steps[BrokerRefused | None]:
    """Search for members with dead letters; returns why a member cannot be checked, if one cannot.

    Args:
        thorough: check all queues and members, otherwise the next ones.
    """
    seen = queue.seen
    now: int = yield queue_calls.clock()
    if not thorough and seen.looked is not None and 0 <= now - seen.looked < SECOND:
        return (yield from _look_at(queue, seen.members.next(PER_CLAIM), now))
    seen.looked = now
    new = yield from _find_members(queue, thorough=thorough)
    if thorough:
        seen.members.begin = 0
    members = seen.members.next(len(seen.members.items) if thorough else PER_SECOND)
    return (yield from _look_at(queue, list(dict.fromkeys([*new, *members])), now))


def _find_members(queue: QueueState[Any], *, thorough: bool) -> Steps[list[Address]]:
    """Look which of the next queues are members; returns the new ones."""
    seen = queue.seen
    if thorough or seen.families.begin == 0:
        families: list[str] = yield queue_calls.registered(queue.keys.namespace)
        seen.show(sorted({*seen.families.items}.difference(families)), [])
        seen.families.items, seen.families.begin = families, 0
    asked = seen.families.next(len(seen.families.items) if thorough else PER_SECOND)
    return seen.show(asked, (yield from shown(queue, asked)))


def _look_at(queue: QueueState[Any], addresses: Sequence[Address], now: int) -> Steps[BrokerRefused | None]:
    """Read when the oldest dead letter of each of these members died, and whether anything is overdue."""
    seen, refused = queue.seen, None
    groups = deque(chunks(addresses, LOOKED_AT))
    while groups:
        group = groups.popleft()
        try:
            replies: list[float | None] = yield Pipeline(
                [
                    queue_calls.first_score(member.keys, index)
                    for member in map(queue.member, group)
                    for index in (member.part, "leases", "expiring")
                ]
            )
        except MissingRights:
            raise
        except BrokerRefused as error:
            if len(group) == 1:
                refused = error
            else:  # a damaged one must not hide the dead letters of the others
                groups.extendleft([address] for address in group)
            continue
        for number, address in enumerate(group):
            oldest, *due = replies[3 * number : 3 * number + 3]
            _note(seen, address, oldest)
            if any(time is not None and time <= now for time in due):
                seen.overdue[address] = None
    return refused


def _note(seen: SeenMembers, address: Address, oldest: float | None) -> None:
    """Note when the oldest dead letter of a member died; None: it has none."""
    if oldest is None:
        seen.oldest.pop(address, None)
    else:
        seen.oldest[address] = oldest


def _shares(queue: QueueState[Any], count: int) -> Steps[list[MemberShare]]:
    """The members that have the `count` oldest dead letters, or at least the first hundred of them.

    The remembered times may be out of date, since others also claim. So they are read again before any dead
    letters are taken.
    """
    seen, most = queue.seen, min(count, SOURCES)
    while candidates := nsmallest(most + 1, list(seen.oldest.items()), key=itemgetter(1)):
        some, more = candidates[:most], candidates[most:]
        families = list({address.family for address, _ in some})
        seen.show(families, (yield from shown(queue, families)))
        if any(address not in seen.known for address, _ in some):  # they have another name by now
            continue
        limit = min(count, TIMES // len(some))
        reads = [page_calls.times(queue.member(address).keys, address.part, limit) for address, _ in some]
        found: list[list[float]] = yield Pipeline(reads)
        ends = [times[-1] for times in found if len(times) == limit]
        until = min([*ends, *(time for _, time in more)], default=inf)  # not all later ones were read
        rows: list[tuple[float, int]] = []
        for number, times in enumerate(found):
            _note(seen, some[number][0], times[0] if times else None)
            rows += ((time, number) for time in times if time <= until)
        taken = Counter(number for _, number in sorted(rows)[:count])
        if taken:
            return [
                _share(some[number][0], count, found[number], full=len(found[number]) == limit)
                for number, count in taken.items()
            ]
    return []


def _share(address: Address, count: int, times: Sequence[float], *, full: bool) -> MemberShare:
    left = times[count:] or (times[-1:] if full else [])
    return MemberShare(address, count, left[0] if left else None)
