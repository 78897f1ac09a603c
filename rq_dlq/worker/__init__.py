"""Runs handlers, and maintains queues.

A consumer has a `Holding` (its messages, in the deques `unstarted` and `done`), a `Settling` for calls that
ended, and a `Claimer`. Threads and event loops run their steps, and only decide when. A thread of a worker is
a consumer. It claims as many messages as it can start within a tenth of a second (one at first), runs one
call after another, and settles finished calls together (`finished`). Another thread tends all consumers: it
extends leases (`leases`), and gives back messages that wait behind a stuck call. If that fails, they stay
with the consumer, which renews their leases before it begins one, since perhaps only the reply was lost. A
third thread ends calls that run too long, by raising an error inside them; it never talks to Redis, otherwise
timeouts come late just when Redis does not answer.

- *Threads without locks.* A consumer and the thread that tends it share deques: a message is in one deque at
  a time, and the thread that pops it owns it. To cut a call short, a thread first announces it and then
  checks whether the call still runs; the consumer first marks the call as ended and then checks for the
  announcement. So at least one of them sees the other.
- *Async handlers* of all queues share one event loop (`lifespan`). A handler that is stuck in C code cannot
  be ended; its lease is no longer extended, so the message comes back. In a worker SystemExit and the like
  count as failures, since a release would make a hot loop.
- *Both colours.* A worker takes a broker of either colour, and makes the other one itself: a `def` handler
  gets a blocking delivery, an `async def` an awaiting one. `Worker.run` starts an event loop in a thread;
  `await broker.run()` uses the caller's, and the worker's own thread is another.
- *The log of an outage* has its begin and its end, once; in a cluster for each queue, for maintenance and for
  schedules, since the node of one may answer while that of another is lost. At a stop it has once, by queue,
  the messages that could not be acked or released.
- *However a consumer ends, it keeps the same rules.* If it fails, its running calls end with their leases
  kept; then, as at a stop, messages that have not begun are released, and so are those of a claim whose reply
  never came. A call that blocks the event loop blocks its acks and releases, too: after a second the worker's
  thread makes them. An extension that failed is tried again after a second. A consumer that fails (its event
  loop breaks, say) ends the worker with an error. `rq-dlq worker --processes N` restarts any process that
  ends, unless it was told to stop; while none can be started, the others continue.
- *A process that has handled enough, or has grown too large* (`recycling`) stops as after a first signal.
  With several processes it asks its parent instead, over the socket that is its stdin. The parent lets one
  end at a time, and the next only when the new one works: if that cannot start, the others continue, over
  their limits.
- *No extension in a worker makes a lease end sooner*: `extend` has `only_later`, which the queue objects of a
  worker set. A handler that asks for ten minutes keeps them, and one that asks for two seconds does not lose
  its message at their end, since it cannot tell when the worker extends next. The server compares, so it does
  not matter whose call comes first.

`claiming` has the size of the next claim and suspects, `async_tasks` how many tasks an event loop needs,
`stopping` and `ending` a stop, `blocking` a call that blocks the event loop.
"""

from rq_dlq.worker.worker import Worker

__all__ = ["Worker"]
