"""Results of messages.

The sender of a message asks for its result, not the handler: only the sender can tell whether a program will
read it. The request is a field of the record, so that each way of sending carries it; the send also writes it
into the state, since an ack reads states and no records. So an ack in a queue without results runs no command
more, and every call that ends a message sees the request in the state that it has read anyway. The send also
reads the setting `results`: it holds for all messages sent from then on, by any version. lua/results.lua says
how an outcome is kept, and whose it is.

- *Where an end is written*: the ack's in `Acks.remove`, before the message goes; all others in
  `Outcomes.note`, through which each event passes. An undone redrive writes the death again, a redrive
  removes it: the newest outcome counts.
- *Waking by publish*, not by a list or a stream: each notice goes to the callers that wait for this message,
  with the end itself, so they need not read again; without a listener nothing is left behind; and one
  connection hears of all queues and nodes of a cluster. A call does not need the right to PUBLISH for its
  first run (`_scripts/verb.py`): users with an older ACL line still work, and their callers look each second.
  The listener is `_redis/awaiting/listener.py`.
- *Cost* (`python -m tests.benchmarks.results`): seven commands more in an ack, however many it acks, and a
  PUBLISH for each message. In instructions of Redis (results of 100 bytes, before births, which add a row and
  a text but no command) an ack of one takes 1.95 times as many as one without a result, an ack of a hundred
  4.2 times. A thousand waiting callers take two connections and 20 commands a second, those inside of
  functions counted.
- *Progress* is a field of the state that counts for its delivery alone, so no verb has to remove it, and it
  costs no key. If the server refuses it, the call continues.
- *A session and a claim of Spark leave no result*: they ack by the list, and the error says so to waiting
  callers.
"""
