"""Senders: they make a repeated call one call, whatever became of its messages meanwhile (I12)."""

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

    A sender makes one call at a time, and comes back only when that call is known to be done. So the queue
    only has to remember the number of the last call: one that is repeated, arrives late or out of order has
    no higher number. A sender whose call failed does not come back, since the call may still arrive.
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
    """Have the registers of those that made their first call kept for a minute in place of an hour.

    Many a producer makes no second call. The replies are known, so these calls are not repeated; a minute is
    for tries that still arrive. To be run before the senders are taken back: the next call needs its hour.
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
