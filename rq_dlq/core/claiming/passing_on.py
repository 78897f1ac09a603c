"""Passing on messages that this program does not accept to another version of it.

During a rollout, workers of two versions take from one queue. A worker passes on (the verb `pass_on`)
messages with an unknown task, with arguments that do not fit, and at every claim those with a decodable body
that does not fit the queue's type or is longer than this program allows. Such a message rests while a live
worker may take it, otherwise for ten minutes; then it is dead.

- *The verb decides*, by the server's clock and a field of the state (`passed_on`), which has the end of the
  ten minutes. But the list of workers is in `rq:processes`, on another slot of a cluster, where no verb of a
  queue can look. So the client reads the reports just before, and passes the marks of live workers to the
  verb. They are at most a round trip old, and a report is up to 5 s old anyway. A worker that starts in
  between counts as one that starts just after. If the node of the reports does not answer, the message rests.
  A queue key that workers renew would be read in the verb, but each report would be a write for each queue.
- *No worker checks arguments for another one.* A report has a mark for each task: a hash of the names, kinds
  and JSON schemas of its parameters, the size limit and the program's version (`values/signature.py`). A
  worker that passes a message on leaves its mark in the state. A live worker may take it if it has the task
  and its own mark is not among these. So each version is asked once, and a message that two versions refuse
  does not alternate between them. A schema does not show the checks of a validator: for these there is the
  version. A worker of an earlier version of this library reports no signatures, so it may take all messages;
  it makes those with an unknown task dead letters.
- *An attempt ends it.* A nack, a lapse, a release after the begin, a death and a move forget the field: the
  next worker that does not take the message gives it ten minutes anew.
- *Ttl* holds: a message that would rest beyond its time to live expires at once, like a redelivery (I7). A
  dead letter that does not fit is kept where it is, as after a nack.
- *A worker that is stopping* does not count as one that takes it; a silent one counts until it is forgotten,
  a minute later.
- *Only the worker passes on tasks.* If a handler raises `UnfitMessage`, for example when it reads another
  message, that is a poison like any `UnprocessableMessage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rq_dlq.core.processes import processes
from rq_dlq.core.queues.queue import taken_of
from rq_dlq.core.settling import settle
from rq_dlq.core.steps.driving import unrepeated
from rq_dlq.core.steps.step import NodeUnavailable
from rq_dlq.errors import MissingRights
from rq_dlq.values.process import UNKNOWN
from rq_dlq.values.signature import BODIES, TASK, under

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rq_dlq.core.queues.queue import QueueName, QueueState
    from rq_dlq.core.steps.step import Steps
    from rq_dlq.errors import UnfitMessage
    from rq_dlq.values.leased import Leased
    from rq_dlq.values.settlement import Settlement


def pass_on(queue: QueueState[Any], delivery: Leased[Any], error: UnfitMessage) -> Steps[Settlement]:
    """Pass on a message that this program does not accept; a dead letter is kept, and rests.

    The verb decides, by the marks of the live workers. It cannot read their reports, which lie elsewhere in
    a cluster, so they are read just before.
    """
    held = [delivery._held]
    if queue.part != "live":
        (settlement,) = yield from settle.poison(
            queue, held, error, reason="unprocessable", values=delivery._values
        )
        return settlement
    task = delivery.headers.get(TASK, BODIES)
    own = under(taken_of(queue), task)
    (settlement,) = yield from settle.pass_on(
        queue,
        held,
        error,
        mark=own.mark if own else "",
        takers=(yield from _marks(queue, task)),
        values=delivery._values,
    )
    return settlement


def _marks(queue: QueueName, task: str) -> Steps[Iterable[str]]:
    """The marks of the live workers that may accept it; if unknown, one may."""
    try:
        found = yield from unrepeated(processes.takers(queue.keys.namespace, queue.name, task))
    except NodeUnavailable:
        return [UNKNOWN]
    except MissingRights:  # a user of an earlier version: such workers did not see others, either
        return []
    return sorted({mark for _, mark in found})
