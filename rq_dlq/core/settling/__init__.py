"""Settling deliveries: ack, nack, poison, release, extend.

lua/judge.lua says how a failure is judged, and why the first lapse under a worker is forgiven.

*Attempts.* `delivery_count` counts each delivery, before the consumer sees the message (I3). A worker claims
ahead, so most messages that it gives back were never begun: with two healthy workers and one call in forty
slow, 331 of 400 messages counted as redelivered at their only call. So an attempt is a delivery that was
begun; the state has the others in `untried`. The consumer that gives a message back says whether it had begun
(`release`); commands and pages show attempts. In doubt it was an attempt:

- Untried: a message that a worker holds and has not begun (at a stop, behind a slow call, after a claim whose
  reply was lost); one that a loop had not delivered when it ended; one that a claim took beyond its count,
  also a suspect; one that was passed on.
- An attempt: `release()` in a handler, or of a message claimed without a worker, without `begun=False`; a
  call that was cut short, an interrupted `with delivery:`; a session that was rolled back, since its block
  had all that it claimed; a batch of Spark that is released, since its tasks may have run (`divide_claim`
  hands nothing out, so no count changes); every lapse.

A worker gives back, untried, messages that wait for a second behind a slow call (`STUCK_AFTER`): another
worker may begin them sooner, and the length of the call is unknown.

*Failures without a charge*, and when the message is delivered next; a wait that *grows* is twice as long
after each failure (lua/judge.lua):

| way | next delivery |
|---|---|
| `Redeliver(charge=False)`, `nack(charge=False)`, `pause_key=True` | grows; a second or more if asked for |
| an ack that sends, refused by a known id; a commit that the server refuses | grows |
| a call that still ran at the end of its time to live | none: the message expires |
| a failure while the breaker of its dependency is open | at once; its gate parks it: 1 s doubling to 30 s |
| passed on, since no program here takes it | 1 s doubling to 60 s, dead after ten minutes |
| the first lapse under a worker, a lapse of a batch of Spark | at once, after a whole lease |
| `release()` | at once, at its old position: nothing failed |
| a dead letter that fails | it rests |

`explain` and `doctor` (check `uncharged`) name the messages that failed repeatedly without a charge, with the
error. If an id is refused, they say where it is, for instance at a dead letter, and the commands that redrive
it or free the id (`core/looking/uncharged.py`).
"""
