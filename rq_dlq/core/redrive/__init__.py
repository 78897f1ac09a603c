"""Redrives: dead letters move back to their queue, in one or several steps, checked by their outcomes.

`dlq.redrive(…)` is a job: it has a record in Redis, moves messages in steps, and is judged by how they end.
(In the code a *job* is a write of Spark; this one is called a redrive there.) `queue.select(…).redrive()`
stays a plain verb, which returns a number and has no record.

- *The client chooses, the Lua moves.* The ids are listed in Redis before the first message moves, so another
  driver of the redrive needs neither the condition nor the queue's type. A redrive of all keeps a range of
  the index instead.
- *A step is one call* (lua/redrives.lua), so drivers need no lease and no names: two of them do not double a
  rate, and a repeated step is simply one more step.
- *Bounds*: a queue remembers a hundred redrives, for a week; the list has about 14 bytes per message; a
  redrive that finds nothing leaves nothing behind.
- *An edit is the caller's*, since only its process has the function (`offers`). As one step, the edit and the
  return of a message cannot be repeated apart: a repetition after a stop would edit some messages twice. No
  other process can continue, so `detach` is refused, and maintenance ends such a redrive ten minutes after
  the last report of its caller, which reports between two edits. It cannot be undone, since the old bodies
  are not kept. A message that the edit refuses stays dead, and is counted and reported: if the function
  raises an error or returns nothing, or if the body cannot be read or sent.
- *A patch is a function, too*, which the command line makes of JSON. For JSON patches `jsonpatch` is an
  extra: it is small, and better tested than ours would be.
- *A redrive to another queue* works in the same way, with the function that `transfer` uses
  (`Transfer.hand_over`): one step over the keys of both queues, or `CrossSlot` before anything is done. The
  end of the message is counted in the other queue, so a canary and `min_success` are refused. That queue has
  to exist, unless `create` asks for it: a typo makes no queue.
- *A ttl* stands in the state (`expires=…`), since the record is not written again. With `keep` a message that
  would have expired by now stays dead, since it would only expire once more. The queue's shortest and longest
  ttl apply to sends alone.
- *A redrive of a shared name* is one redrive per queue, perhaps on several nodes. So it takes no canary and
  no rate: no queue could count for all of them.
"""
