"""Senders: they make a repeated call count once, whatever happened to its messages in the meantime (I12)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from rq_dlq._keys import MoreKeys
from rq_dlq.core.steps.call import Command, Sender
from rq_dlq.core.steps.step import Batch
from rq_dlq.errors import RqDlqError
from rq_dlq.values.forks import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.steps.call import Call
    from rq_dlq.core.steps.step import Steps

P = ParamSpec("P")
R = TypeVar("R")
NONCE = 9  # random bytes
BRIEFLY = 60_000  # milliseconds


class Senders:
    """The idle senders of a broker, so of one namespace.

    A sender makes one call at a time, and is reused only when the outcome of that call is known. So the queue
    needs to remember only the number of the last call: a call that is repeated, late or out of order has no
    higher number. A sender whose call failed is not reused, since the call may still arrive.
    """

    def __init__(self) -> None:
        self._idle: dict[str, list[Sender]] = {}  # by the names of their queues
        self._process = 0

    def lend(self, keys: QueueKeys) -> Sender:
        """A sender for one call to a queue."""
        if self._process != this_process():  # after a fork the child must not use its parent's numbers
            self._idle, self._process = {}, this_process()
        try:
            sender = self._idle[keys.family].pop()
        except (KeyError, IndexError):
            sender = Sender(MoreKeys(keys, {"sender": keys.sender(secrets.token_urlsafe(NONCE))}))
        sender.number += 1
        return sender

    def take_back(self, sender: Sender) -> None:
        """Keep a sender for the next call, since its last one was done."""
        family = sender.keys.queue.family
        try:
            self._idle[family].append(sender)
        except KeyError:
            self._idle.setdefault(family, []).append(sender)


def answered(senders: Sequence[Sender]) -> Steps[None]:
    """Keep the registers of senders that made their first call for a minute instead of an hour.

    Many producers make no second call. The replies are known, so these calls are not repeated; the minute is
    for tries that still arrive. Run this before the senders are reused: the next call needs its hour.
    """
    first = [_keep_briefly(sender) for sender in senders if sender.number == 1]
    if first:
        with suppress(RqDlqError):  # then it is an hour
            yield Batch(first)


def _keep_briefly(sender: Sender) -> Command[int]:
    return Command((b"PEXPIRE", sender.keys["sender"], BRIEFLY), int)


def once(
    senders: Senders,
    keys: QueueKeys,
    call: Callable[Concatenate[Sender, P], Call[R]],
    *args: P.args,
    **options: P.kwargs,
) -> Steps[R]:
    """Make a call to a queue that takes effect once, however often it is repeated."""
    sender = senders.lend(keys)
    result: R = yield call(sender, *args, **options)
    yield from answered([sender])
    senders.take_back(sender)
    return result
