"""Worlds that no script tells apart are one: they have the same future, by other names and numbers.

Why each reduction is sound is said beside it; `test_worlds_that_are_one_have_the_same_future` tries them all,
on long ways through worlds that were never reduced.

No client is part of a world. Whatever one believes, and whichever call it repeats, how late and how often: a
call comes with a token, and that token holds the message, settled it last, or is nowhere. So it is enough to
try, in every world, every verb by the holder, by the holder twice, and by somebody else (`actions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tests.model.interleavings.world import PER_MS, Claim, Counts, Message, Queue

NOW = 1_790_000_000_000
TICK = 1_000  # milliseconds: a lease, a delay and the clock's step
GONE = "gone"
STORY = b'nacked\t0\t0\t0\t"c"\t{}\t'

Names = dict[str, str]
Shift = Callable[[int], int]


@dataclass(frozen=True)
class Reduction:
    """What may be forgotten depends on the verbs.

    Attributes:
        stamps: one of them makes a message due now; else what was due before is as what is due now.
        graves: one of them asks for the oldest of the dead or the expired; else their order says nothing.
        workers: one of them claims as a worker does: then a lease that ran out decides, too.
        kept: milliseconds for which the dead are kept: so long their age counts.
    """

    stamps: bool
    graves: bool
    workers: bool
    kept: int = 0

    def __call__(self, queue: Queue, now: int) -> tuple[Queue, Names]:
        """The queue that stands for all like this one; what its messages and claims are called there."""
        # The id of a message decides nothing; the send order does.
        ids = sorted(queue.messages, key=lambda name: queue.messages[name].birth)
        names = {name: f"m{n}" for n, name in enumerate(ids)}
        claims = {token: self._claim(queue, token, names, now) for token in queue.claims}
        # A token is drawn at random. Of leases that lapsed any may be swept first: `actions` tries them all.
        order = sorted(claims, key=lambda token: (claims[token].until, claims[token].given))
        names |= {token: f"t{n}" for n, token in enumerate(order)}
        messages = self._messages(queue, ids, names, now)
        ready = any(message.place == "ready" for message in messages.values())
        return replace(
            queue,
            messages=messages,
            claims={names[token]: claims[token] for token in order},
            totals={"sent": len(messages)},  # no script reads them; `rules` look at what each step adds
            # The next birth is later than all before it, and than those that are left.
            last=max((message.birth for message in messages.values()), default=0),
            # Where something is ready it is there, and who comes takes it; else it may be there in vain.
            woken=ready and queue.settings.get("paused") != "1",
        ), names

    def _claim(self, queue: Queue, token: str, names: Names, now: int) -> Claim:
        """What it was given and does not hold any more is looked up and passed over, whichever it was."""
        claim, held = queue.claims[token], set(queue.held_by(token))
        given = [names[name] if name in held else GONE for name in claim.given if name]
        while given[-1] == GONE:
            given.pop()
        return Claim(NOW + max(claim.until - now, 0), tuple(given), claim.by_worker)

    def _messages(self, queue: Queue, ids: list[str], names: Names, now: int) -> dict[str, Message]:
        old = [queue.messages[name] for name in ids]
        standing = [message for message in old if message.part == "live" or self.graves]
        at = self._shift(now, (*(message.born for message in old), *(message.due for message in standing)))
        over = self._shift(now, (message.expires for message in old if message.expires is not None))
        new: dict[str, Message] = {}
        birth = 0
        for name, message in zip(ids, old, strict=True):
            counts = self._counts(message)
            birth = max(birth + 1, at(message.born) * PER_MS)  # only the order matters within a millisecond
            new[names[name]] = message._replace(
                birth=birth,
                expires=None if message.expires is None else over(message.expires),
                due=at(message.due) if message.part == "live" or self.graves else NOW - 1,
                reason="poison" if message.reason and message.reason != "expired" else message.reason,
                # Who settled it last is told so when it repeats its call, which it does at once; no more.
                token=names.get(message.holder, ""),
                # A rest that has ended decides nothing.
                rests=message.rests - now + NOW if message.rests > now else 0,
                counts=counts,
                story=(STORY,)
                if counts.charged or (self.workers and counts.lapsed)
                else (),  # lines are added to it, whatever it says
            )
        return new

    def _counts(self, message: Message) -> Counts:
        """What is charged decides until it dies; with a ttl, whether it was redriven. The rest is read."""
        if not message.touched:
            return Counts()
        charged = message.counts.charged if message.part == "live" else 2
        redriven = 1 if message.expires is None else min(message.counts.redriven, 1)
        lapsed = min(message.counts.lapsed, 1) if self.workers else 1
        return Counts(delivered=1, charged=charged, nacked=1, lapsed=lapsed, released=1, redriven=redriven)

    def _shift(self, now: int, times: Iterable[int]) -> Shift:
        """Relative to now. Of what is over only the order matters, and what was at the same time."""
        last = now - self.kept - self.stamps
        over = sorted({time for time in times if time <= last})
        moved = {time: NOW - self.kept - len(over) + n for n, time in enumerate(over)}
        return lambda time: moved[time] if time <= last else NOW + time - now
