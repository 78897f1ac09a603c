"""Senders: they make a repeated call count once, whatever happened to its messages in the meantime (I12).

A producer that repeats a send cannot ask the queue whether the message arrived: a consumer may have acked it.
So calls are numbered. A sender has a random nonce and counts its calls. For an hour each queue keeps the
number of the sender's last call there, and how many messages that call changed (lua/register.lua). A call
whose number is not higher was done already, and gets the stored count. A verb is numbered if a consumer or an
operator could undo its effect between two tries: `send`, `commit`, `transfer`, `redrive` and the other verbs
on chosen messages, which therefore return exact counts. Claims and settlements are identified by their
tokens, jobs by their names.

- *A sender makes one call at a time*, and returns to its broker only when that call is known to be done. So
  one number is enough, in whatever order and over whichever connection calls arrive. Each call of a pipeline
  has its own sender.
- *Not a nonce for each connection.* The numbers of a connection would have to arrive in order, which
  redirections, functions that are not loaded and broken batches prevent, and a repetition leaves its
  connection. Here a call is a value with its number among its arguments, and nothing below `core` sees it.
- *A sender whose call failed is not used again*, since the call may still arrive. A session keeps its sender,
  so a second `commit()` repeats the first.
- *An hour is for calls without a reply.* Many programs make one call and end: once its reply is here, the
  client shortens the time of the register of a first call to a minute (`answered`). A second call gives it
  its hour again, so a producer that continues pays for one more command once. At 100 programs a second,
  registers take 0.6 MB in place of 37.
- *Cost*: a read and a write in Redis, and a key for each call that a broker makes to a queue at the same
  time: one for a producer that sends message by message, four for `send_many`.
- *Acks are not numbered.* If an ack is lost, its lease lapses, and another consumer settles the message, the
  repeated ack is answered with "done". A tombstone would correct that answer, but needs an index and
  maintenance of its own. The wrong answer changes no message.
- *Only repetitions by the client count as one send.* If a program itself sends an id again after the first
  message is gone, that is a new message, unless the queue has a `dedup_window`, or keeps the result of the
  first one.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from rq_dlq._keys import MoreKeys
from rq_dlq.core.steps.call import Command, Sender
from rq_dlq.core.steps.step import Pipeline
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
            yield Pipeline(first)


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
