"""Batches: several claims under one name, which whoever knows the name can read, keep and settle.

One script shall not claim 50,000 messages, so a batch is as many claims as it needs.
Their tokens follow from its name, so the name is all that has to be noted: the same name, the same messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rq_dlq import _calls
from rq_dlq._calls import claims
from rq_dlq._work.claim import open_to_drain, patiently
from rq_dlq._work.settle import release
from rq_dlq._work.steps import WINDOW, Batch, Steps, seed
from rq_dlq.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq._work.queue import Queue
    from rq_dlq.message import Row

CLAIM = 500  # messages in one claim of a batch: about 2 ms of Redis
PAGE = 500  # claims in one script that keeps them
LOOKED_AT = 50  # claims whose lists one command reads: about 1 MB


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """A batch.

    Attributes:
        name: what its tokens are made of.
        home: the queue.
        sizes: how many messages each of its claims was given; 0: it is over.
    """

    name: str
    home: str
    sizes: tuple[int, ...] = ()

    @property
    def tokens(self) -> list[str]:
        """The tokens of its claims."""
        return [token_of(self.name, self.home, number) for number in range(len(self.sizes))]

    @property
    def address(self) -> str:
        """Its name and how many claims it has, for who reads it elsewhere."""
        return f"{self.name}*{len(self.sizes)}"

    @property
    def messages(self) -> int:
        """How many messages it was given."""
        return sum(self.sizes)


def token_of(name: str, home: str, number: int) -> str:
    """The token of a batch's claim; like those of a view's claims it names its queue."""
    return f"{name}.{number}@{home}"


def tokens_at(address: str, home: str) -> list[str]:
    """The tokens of a batch's claims, from its address; empty where that is none."""
    name, _, count = address.rpartition("*")
    return [token_of(name, home, number) for number in range(int(count) if count.isdigit() else 0)]


def home_of(token: str) -> str:
    """The queue whose messages a batch's token holds; empty: it does not say."""
    return token.partition("@")[2]


def claim_batch(
    queue: Queue[Any], name: str, *, limit: int, lease: int, wait: int = 0
) -> Steps[ClaimedBatch]:
    """Claim up to `limit` messages under a name, waiting for the first up to `wait` milliseconds.

    A batch ends where nothing more is ready, so that one under a live producer does, too.

    Raises:
        InvalidInput: the name shows what failed in other queues.
    """
    yield from open_to_drain(queue)
    if queue.view:
        message = f"cannot claim a batch of {queue.name!r}: it shows what failed in others. Claim from those"
        raise InvalidInput(message)
    sizes: list[int] = []

    def once(
        patience: int,
        alarmed: bool,  # noqa: FBT001 - as patiently calls it
    ) -> Steps[tuple[_calls.Claimed | None, int]]:
        claimed: _calls.Claimed = yield _calls.claim(
            queue.keys,
            part=queue.part,
            token=token_of(name, queue.keys.home, len(sizes)),
            count=min(CLAIM, limit - sum(sizes)),
            lease=lease,
            patience=patience,
            alarmed=alarmed,
            consumer=queue.consumer,
            seed=seed(),
            default_policy=queue.policy,
            answer="count",
        )
        return claimed if claimed.count else None, claimed.wait

    while sum(sizes) < limit:
        claimed = yield from patiently(queue, once, 0 if sizes else wait)
        if claimed:
            sizes.append(claimed.count)
        if not claimed or (claimed.count < CLAIM and claimed.wait != 0):
            break
    return ClaimedBatch(name, queue.keys.home, tuple(sizes))


def find_batch(keys: QueueKeys, name: str) -> Steps[ClaimedBatch]:
    """The batch that was claimed, or put aside, under this name before.

    A claim that is over has the size 0; the others have as many places as ever, whatever was settled
    meanwhile, so that who deals out the places leaves out none.
    """
    sizes: list[int] = []
    page: list[int] = [1]
    while any(page):
        tokens = [token_of(name, keys.home, len(sizes) + number) for number in range(LOOKED_AT)]
        page = yield claims.given_counts(keys, tokens)
        sizes += page
    while sizes and sizes[-1] == 0:
        sizes.pop()
    return ClaimedBatch(name, keys.home, tuple(sizes))


def held_by(keys: QueueKeys, tokens: Sequence[str]) -> Steps[list[int]]:
    """How many messages each of these claims still holds."""
    held: list[int] = []
    for start in range(0, len(tokens), PAGE):
        held += yield claims.held_counts(keys, tokens[start : start + PAGE])
    return held


def places_of(keys: QueueKeys, tokens: Sequence[str]) -> Steps[list[int]]:
    """How many places the list of each of these claims has; 0: it is over."""
    places: list[int] = []
    for start in range(0, len(tokens), PAGE):
        places += yield claims.given_counts(keys, tokens[start : start + PAGE])
    return places


def read_claim(keys: QueueKeys, token: str, first: int, limit: int) -> Steps[list[Row]]:
    """What a claim still holds of `limit` places from `first` on, untouched; one page."""
    return (yield claims.read_claim(keys, token, first=first, limit=limit))  # type: ignore[no-any-return]


def extend_batch(keys: QueueKeys, tokens: Sequence[str], lease: int) -> Steps[list[str]]:
    """The leases start anew (milliseconds): the tokens that hold nothing any more."""
    over: list[str] = []
    for start in range(0, len(tokens), PAGE):
        page = tokens[start : start + PAGE]
        still = yield claims.extend_claim(keys, page, lease=lease)
        over += (token for token, holds in zip(page, still, strict=True) if not holds)
    return over


def ack_batch(keys: QueueKeys, tokens: Sequence[str]) -> Steps[int]:
    """Done: all that the batch still holds; how many. Can be repeated."""
    acked = 0
    for start in range(0, len(tokens), WINDOW):
        acked += sum(
            (yield Batch([claims.ack_claim(keys, token) for token in tokens[start : start + WINDOW]]))
        )
    return acked


def release_batch(queue: Queue[Any], tokens: Sequence[str]) -> Steps[int]:
    """Given back, uncharged: all that the batch still holds; how many."""
    released = 0
    for token in tokens:
        ids: list[str] = yield claims.given_ids(queue.keys, token)
        released += sum(map(bool, (yield from release(queue, [(message_id, token) for message_id in ids]))))
    return released


def halve_batch(keys: QueueKeys, tokens: Sequence[str], rest: str) -> Steps[int]:
    """Put the greater half of what a batch still holds aside, under the name `rest`; how many it keeps.

    The name must be a new one. What is alone is put aside, too.
    """
    held = yield from held_by(keys, tokens)
    keep = sum(held) // 2
    kept = number = 0
    for token, count in zip(tokens, held, strict=True):
        if kept + count > keep:
            yield claims.divide_claim(keys, token, to=token_of(rest, keys.home, number), keep=keep - kept)
            number += 1
        kept += min(count, keep - kept)
    return kept


def rename_batch(keys: QueueKeys, batch: ClaimedBatch, name: str) -> Steps[None]:
    """Give a batch another name, a new one. Can be repeated.

    The first claim goes last: by it one finds what is left where the driver died in between.
    """
    numbered = [*enumerate(batch.tokens)]
    for number, token in numbered[1:] + numbered[:1]:
        yield claims.divide_claim(keys, token, to=token_of(name, keys.home, number), keep=0)
