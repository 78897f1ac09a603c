"""The state of a queue object, the list of the queues, and the meaning of their names.

A dead-letter queue is a place in the queue where the messages failed, so its name is only a name.
`DLQ.orders` is recognized by its form. A name from a policy (another prefix, or one shared by many queues) is
an *alias* in `rq:aliases`. A queue object with such a name is a *view* (`names`): each operation looks up the
queues whose dead letters have this name, and runs one call for each. The tokens of a claim through a view end
in `@` and the queue's name, so each settlement goes to the right queue. So a shared dead-letter queue works
on a cluster: the move of a message stays one call on one node.

- *More names*: `dead_letter_aliases` and `expiry_aliases` give the dead letters and the expired messages of a
  queue further names. A dead letter then has several names, but one place, one lease and one token, whichever
  name it was claimed by. Artemis puts a copy into each queue of an address, so two readers do the same work
  twice.
- *A name that is a queue, too*: programs send to "DLQ" while policies give that name to dead letters. The
  queue stays a queue like others, and its readers also get the dead letters (`core/claiming/by_turns.py`).
  Verbs that read or choose messages have both (`stats`, `browse`, `peek`, `explain`, `select`, `purge`).
  Verbs for the queue as a whole (`pause`, `delete`, its settings, its schedules, a batch of Spark) concern
  the sent messages only. In a cluster the two are on different nodes, which matters only to a session over
  both. A send wakes a waiting reader; for dead letters it looks each second, as in any view. The log has a
  warning, since consumers of the queue get the letters, too.
- *A name may change hands*: one policy gives it to dead letters, another takes it back, and a queue is opened
  under it. So each operation looks up the meaning of the name, in the round trip of its first read. The send
  and the claim of an open queue do not, since their verbs refuse an opening that has ended (`registry`); a
  claim through a view looks each second. Only a queue's own letters keep their usual name.

A claim creates no queue, unless the program declares settings. Until a message is sent to a name, each claim
from it looks again, once a second while it waits, whether there is a queue of that name by now, or dead
letters. So a program that drains "DLQ" before the policy exists does not take the name for a queue.
"""
