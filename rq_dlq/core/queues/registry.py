"""The list of the names of all queues: how a name is added, and removed.

A program that opened a queue does not hear of its deletion, or that its name was given to dead letters. On a
cluster the list of queues, the aliases and the queue's keys are on three nodes, so no verb sees them all. The
queue's own node decides, by the *opening*: a random word in the queue's `settings`, which goes with its other
keys. `send`, `commit`, `commit_job` and `transfer` say which opening they know, and refuse if it is not the
present one. Then nothing was done; the client opens the queue again and repeats the call. A claim that names
an old opening ends, too, so a consumer declares its settings again, or finds that letters are under the name
now. Each client does its steps in a fixed order:

- *A client that opens a queue* writes the opening (unless there is one), adds the name to the list, and then
  looks whether the name is an alias. If so, the opening must have a mark, which says that claims under it
  look for dead letters. An opening without the mark is ended, and the client opens the queue again.
- *A client that gives the name to letters* notes the alias, writes the settings that give it, and then ends
  an opening that lacks the mark.
- *A client that deletes a queue* removes its keys, takes the name off the list, and then looks whether the
  queue is open again. If so, it puts the name back.

So of an opener and a giver at least one sees the other, and no opening is left under which claims miss
letters. An open queue stays on the list: either the deleter sees the opening, or its opener adds the name
after the removal. A deleter that dies between its steps leaves a name without a queue or, if the queue was
opened in just that moment, a queue without a name, until the next client opens it. Aliases are never removed,
since a client that opens a queue cannot see whether another is just giving its name: the readers of a name
that was given once look for dead letters forever, in at most a thousand other queues a second.
`tests/behaviour/policies/test_policies_at_once.py` tries the orders of these steps.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from rq_dlq.core.queues import calls
from rq_dlq.core.steps.step import Pipeline, Steps

if TYPE_CHECKING:
    from rq_dlq._keys import QueueKeys
    from rq_dlq.core.queues.queue import QueueName


LETTERS = "+"  # the mark of an opening: policies gave the name to dead letters, and claims search for these


class Opened(NamedTuple):
    """The opening of a queue, and whether the queue is a new one."""

    opening: str
    new: bool


def register(queue: QueueName) -> Steps[bool]:
    """Open a queue and list its name before the map is read, so that a later change of the map finds it.

    Returns:
        Whether it is a new queue.
    """
    queue.opening, new = yield from enlist(queue.keys)
    queue.view, queue.also_letters = False, queue.part == "live" and LETTERS in queue.opening
    return new


def enlist(keys: QueueKeys) -> Steps[Opened]:
    """Open a queue, then list its name; its opening has the mark if policies ever gave the name.

    A client that gives the name to dead letters notes that first, and then ends an opening without the mark,
    so one of the two clients sees the other.
    """
    mark = ""
    while True:
        own = secrets.token_hex(4) + mark
        opening: str
        _, opening, _, noted = yield Pipeline(
            [
                calls.open_as(keys, own),
                calls.opening(keys),
                calls.register(keys),
                calls.is_alias(keys.namespace, keys.family),
            ]
        )
        mark = LETTERS if noted else ""
        if opening and mark in opening:
            return Opened(opening, opening == own)
        if opening:  # otherwise it was deleted between two of these
            yield calls.close(keys)


def unlist(keys: QueueKeys) -> Steps[bool]:
    """Take the name of a queue that was closed off the list; whether the name is free now.

    A client that opens it at the same time is seen by the check after that, and the name stays. A client that
    opens it later also lists it later.
    """
    looks = calls.opening(keys), calls.was_sent_to(keys)
    while True:
        if not any((yield Pipeline([calls.unregister(keys), *looks]))[1:]):
            return True
        if any((yield Pipeline([calls.register(keys), *looks]))[1:]):
            return False


def in_use(keys: QueueKeys) -> Steps[bool]:
    """Whether a name is that of a queue: listed, open, or ever sent to."""
    looks = calls.is_registered(keys.namespace, keys.family), calls.opening(keys), calls.was_sent_to(keys)
    return any((yield Pipeline(looks)))
