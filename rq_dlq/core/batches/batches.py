"""Batches: several claims under one name, by which any process can read, extend and settle them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rq_dlq.core.batches import calls
from rq_dlq.core.batches.renewal import PAGE, Renewal
from rq_dlq.core.claiming import calls as claiming_calls
from rq_dlq.core.claiming.claim import patiently
from rq_dlq.core.gathers.carrying import carry_ended
from rq_dlq.core.opening import open_to_drain
from rq_dlq.core.pages import calls as page_calls
from rq_dlq.core.pages.calls import Page
from rq_dlq.core.queues.queue import forget
from rq_dlq.core.settling.settle import family_of, release
from rq_dlq.core.steps.step import WINDOW, Pipeline, Steps, chunks, seed
from rq_dlq.errors import InvalidInput
from rq_dlq.values.state import first_delivery
from rq_dlq.values.wanted import ALL

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueState
    from rq_dlq.core.steps.replies import Word
    from rq_dlq.values.wanted import Wanted

CLAIM = 500  # messages in one claim of a batch: about 2 ms of Redis
LOOKED_AT = 50  # claims whose lists one command reads: about 1 MB


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """A batch.

    Attributes:
        name: begins its tokens.
        family: the queue.
        sizes: how many messages each of its claims took; 0: the claim has ended.
        bytes: the size of the claimed messages; 0: unknown.
    """

    name: str
    family: str
    sizes: tuple[int, ...] = ()
    bytes: int = field(default=0, compare=False)

    @property
    def tokens(self) -> list[str]:
        """The tokens of its claims."""
        return [token_of(self.name, self.family, number) for number in range(len(self.sizes))]

    @property
    def address(self) -> str:
        """Its name and its number of claims, from which another process finds its tokens."""
        return f"{self.name}*{len(self.sizes)}"

    @property
    def messages(self) -> int:
        """How many messages it was given."""
        return sum(self.sizes)


def token_of(name: str, family: str, number: int) -> str:
    """The token of a batch's claim; it names the queue, as the tokens of a view's claims do."""
    return f"{name}.{number}@{family}"


def tokens_at(address: str, family: str) -> list[str]:
    """The tokens of a batch's claims, from its address; empty if that is not an address."""
    name, _, count = address.rpartition("*")
    return [token_of(name, family, number) for number in range(int(count) if count.isdigit() else 0)]


def claim_batch(
    queue: QueueState[Any],
    name: str,
    *,
    limit: int,
    lease: int,
    wait: int = 0,
    size: float = math.inf,
    renewal: Renewal | None = None,
) -> Steps[ClaimedBatch]:
    """Claim up to `limit` messages under a name, and wait up to `wait` milliseconds for the first.

    A batch ends when nothing more is ready, so it ends even while a producer keeps sending.

    Args:
        lease: milliseconds; each claim's is renewed until the last claim is made.
        size: bytes; the claim that reaches them is the last.
        renewal: renews also the leases of batches of other queues that were claimed just before.

    Raises:
        InvalidInput: the queue is a view.
    """
    if queue.view:
        forget(queue)  # it may be a queue by now
    yield from open_to_drain(queue)
    if queue.view:
        message = f"cannot claim a batch of {queue.name!r}: it is a view of other queues. Claim from those"
        raise InvalidInput(message)
    renewal = renewal or Renewal(lease)
    sizes: list[int] = []
    got = 0
    while sum(sizes) < limit and got < size:
        token, count = token_of(name, queue.keys.family, len(sizes)), min(CLAIM, limit - sum(sizes))
        once = partial(_claim_once, queue, token, renewal, count=count, lease=lease)
        claimed = yield from patiently(queue, once, 0 if sizes else wait)
        if claimed:
            sizes.append(claimed.messages)
            got += claimed.size
        # Large messages fill a claim earlier; a claim of dead letters does not report whether more are ready.
        if not claimed or (claimed.messages < CLAIM and claimed.wait != 0 and queue.part == "live"):
            break
    return ClaimedBatch(name, queue.keys.family, tuple(sizes), got)


def _claim_once(
    queue: QueueState[Any],
    token: str,
    renewal: Renewal,
    patience: int,
    *,
    count: int,
    lease: int,
    alarmed: bool,
    thorough: bool,
    asleep: bool,
) -> Steps[tuple[claiming_calls.Claimed | None, int | Word]]:
    """Make one claim of a batch; None: it got nothing. Also, as `Claimed.wait`, when to claim again."""
    del asleep  # a batch has no permit
    claimed: claiming_calls.Claimed = yield claiming_calls.claim(
        queue.keys,
        part=queue.part,
        token=token,
        count=count,
        lease=lease,
        patience=patience,
        alarmed=alarmed,
        thorough=thorough,
        consumer=queue.consumer,
        seed=seed(),
        default_policy=queue.policy,
        answer="count",
    )
    yield from renewal.note(queue.keys, token, claimed)
    if claimed.gathered:
        yield from carry_ended(queue, claimed.now)
    return claimed if claimed.messages else None, claimed.wait


def find_batch(keys: QueueKeys, name: str) -> Steps[ClaimedBatch]:
    """The batch that was claimed or parked under this name.

    A claim that has ended has size 0. The others keep their size even if messages were settled, so that
    positions in them stay valid.
    """
    sizes: list[int] = []
    page: list[int] = [1]
    while any(page):
        tokens = [token_of(name, keys.family, len(sizes) + number) for number in range(LOOKED_AT)]
        page = yield calls.given_counts(keys, tokens)
        sizes += page
    while sizes and sizes[-1] == 0:
        sizes.pop()
    return ClaimedBatch(name, keys.family, tuple(sizes))


def held_by(keys: QueueKeys, tokens: Sequence[str]) -> Steps[list[int]]:
    """How many messages each of these claims still holds."""
    held: list[int] = []
    for page in chunks(tokens, PAGE):
        held += yield calls.held_counts(keys, page)
    return held


def count_lost(keys: QueueKeys, ids: Mapping[str, Sequence[str]]) -> Steps[int]:
    """How many of these messages are not held any more by the tokens that they are listed under."""
    lost = 0
    for window in chunks([*ids.items()], WINDOW):
        found = yield Pipeline([page_calls.cells(keys, "states", given) for _, given in window])
        for (token, _), states in zip(window, found, strict=True):
            mark = _mark(token)
            lost += sum(mark not in (state or b"") for state in states)
    return lost


def sizes_of(keys: QueueKeys, tokens: Sequence[str]) -> Steps[list[int]]:
    """How many messages each of these claims took; 0: it has ended."""
    sizes: list[int] = []
    for page in chunks(tokens, PAGE):
        sizes += yield calls.given_counts(keys, page)
    return sizes


def read_claim(keys: QueueKeys, token: str, first: int, limit: int, wanted: Wanted = ALL) -> Steps[Page]:
    """Read the messages that a claim still holds, of `limit` messages from the `first` on.

    This takes no call. The record and the history of a message do not change while a claim holds it, and
    the states are read last: a message that is held then was held before. They are read again after the
    histories, which few messages have. If neither is wanted, the claim's counter is read last instead: it
    nearly always shows that nothing was settled. No command reads more than the claim was given: about half
    a megabyte, or one message.

    Args:
        wanted: the parts of each message; the record is always read.
    """
    given: list[bytes] = yield calls.places(keys, token)
    ids = [message_id for message_id in given[first : first + limit] if message_id]
    if not ids:
        return Page([], [], [], [], token=token)
    if not wanted.state and not wanted.history:
        records, (count,) = yield Pipeline(
            [page_calls.cells(keys, "messages", ids), calls.held_counts(keys, [token])]
        )
        if count == len(given) - given.count(b"") and None not in records:
            return Page(ids, records, [], [], token=token)
    records, states = yield Pipeline([page_calls.cells(keys, part, ids) for part in ("messages", "states")])
    stories: list[bytes | None] = [None] * len(ids) if wanted.history else []
    fresh = first_delivery(token)
    told = [n for n, state in enumerate(states) if state and state != fresh] if wanted.history else []
    if told:
        some = [ids[n] for n in told]
        again = yield Pipeline([page_calls.cells(keys, part, some) for part in ("history", "states")])
        for n, story, state in zip(told, *again, strict=True):
            stories[n], states[n] = story, state
    mark = _mark(token)
    held = [n for n, state in enumerate(states) if state and mark in state and records[n] is not None]
    parts: tuple[list[Any], ...] = (ids, records, states, stories)
    if len(held) < len(ids):
        parts = tuple([cells[n] for n in held] if cells else [] for cells in parts)
    ids, records, states, stories = parts
    return Page(ids, records, states, stories, token=token)


def _mark(token: str) -> bytes:
    """What a state has while this token holds its message, as in lua/state.lua, holds."""
    return f" +{token} ".encode()


def extend_batch(keys: QueueKeys, tokens: Sequence[str], lease: int) -> Steps[list[str]]:
    """Extend the leases (milliseconds); returns the tokens that hold nothing any more."""
    over: list[str] = []
    for page in chunks(tokens, PAGE):
        still = yield calls.extend_claim(keys, page, lease=lease)
        over += (token for token, holds in zip(page, still, strict=True) if not holds)
    return over


def ack_batch(keys: QueueKeys, tokens: Sequence[str], messages: int = 0) -> Steps[int]:
    """Ack all that the batch still holds; returns how many. It can be repeated.

    Args:
        messages: how many it has; 0: not known.
    """
    acked = 0
    for window in chunks(tokens, WINDOW):
        acked += sum((yield Pipeline([calls.ack_claim(keys, token, messages) for token in window])))
    return acked


def release_batch(queue: QueueState[Any], tokens: Sequence[str]) -> Steps[int]:
    """Release all that these claims still hold, of a batch or others, uncharged; returns how many."""
    released = 0
    for token in tokens:
        ids: list[str] = yield calls.given_ids(family_of(queue, token), token)
        released += sum(map(bool, (yield from release(queue, [(message_id, token) for message_id in ids]))))
    return released


def halve_batch(keys: QueueKeys, tokens: Sequence[str], rest: str) -> Steps[int]:
    """Park the greater half of what a batch still holds under the name `rest`; returns how many it keeps.

    The name must be new. A single message is also parked.
    """
    held = yield from held_by(keys, tokens)
    keep = sum(held) // 2
    kept = number = 0
    for token, count in zip(tokens, held, strict=True):
        if kept + count > keep:
            yield calls.divide_claim(keys, token, to=token_of(rest, keys.family, number), keep=keep - kept)
            number += 1
        kept += min(count, keep - kept)
    return kept


def rename_batch(keys: QueueKeys, batch: ClaimedBatch, name: str) -> Steps[None]:
    """Give a batch a new name. Can be repeated.

    The first claim goes last, so that the rest is found by it if the driver dies in between.
    """
    numbered = [*enumerate(batch.tokens)]
    for number, token in numbered[1:] + numbered[:1]:
        yield calls.divide_claim(keys, token, to=token_of(name, keys.family, number), keep=0)


def withdraw_batch(queue: QueueState[Any], name: str) -> Steps[int]:
    """Release a batch that no process is using; returns how many messages.

    It is renamed first, so that no process finds it by its name during the release.
    """
    batch = yield from find_batch(queue.keys, name)
    aside = replace(batch, name=secrets.token_hex(6))
    yield from rename_batch(queue.keys, batch, aside.name)
    return (yield from release_batch(queue, aside.tokens))
