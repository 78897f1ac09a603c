"""Gathers: a message that becomes due when all of others have ended.

A gather is the ends of some messages, its children, and one message, `then`, that waits for them.
`lua/README.md` ("Gathers") describes the rows.

- *`then` is sent first*, scheduled for the end of `within`. So the opener hears if a queue refuses it,
  nothing has to send it later, and it is delivered once because it is one message. `within` has no "never":
  the opener may be killed in its block.
- *A set of ids, no counter.* A counter is decremented twice by a repeated ack, or once too few by a cut-off
  one. An end sets the score of a row, and all is done when no row has the score of an open one: one ZCOUNT,
  in a range that is the gather's own.
- *One sorted set for all gathers of a queue*: a key of each gather could not be declared by an ack, which
  learns of the gather from the states. A key costs each call that declares it some instructions, an ack about
  1 %: so there is one, not three.
- *Two calls.* An ack declares the keys of its own queue, and its user may have no right to others. So it
  notes the end, and another call carries the share. It needs no reply that must not be lost: the row with the
  score 0 stays until the share has come. The reply of the ack only makes it soon; claims are told by a
  setting that they read anyway.
- *The rows move to the queue of `then`*, so they are there as long as `then` is, also when it is a dead
  letter for a month, and go with it. The results stay in the queues of the children, with their bounds.
- *When the ends stand*: a redriven child is open again until its queue's share is complete, since from then
  on the share may be carried at any moment.
- *A known message becomes a child*, in whatever state it is, so a program that repeats its block under the
  same ids waits for the same messages. One of another gather is refused: an end would have to be told to
  both.
- *Programs of 0.1.0 are not kept out.* With keys and breakers they are, since they would break an order
  unseen. Here they end a child without a note, which shows from the outside: an open row without its message.
  They keep the outcome of each child, since its state has the word `result`, so the look at a share finds the
  end, within ten seconds. To keep them out, each send of a child would have to write an entry into the map of
  policies. What is lost is an end without an outcome, such as where results were dropped: `gone`.
- *`delivery.gathered` reads when it is asked*, so a claim costs nothing more. In asyncio the property is
  awaited.
- *`ResultUnavailable.why`* has three words, by what a caller can do: wait, ask, or nothing. An ack without a
  result is `gone`.
"""
