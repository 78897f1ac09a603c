"""Delivering messages: to a claim, to a loop, from a view.

A client that finds nothing sleeps on `wake` (BLPOP) for at most a second, then looks again: an idle client
claims once per second. `send`, and any call that makes a message ready, pushes one token; the claim that it
wakes pushes the next one if more is ready. For future work one sleeping client holds the `alarm` and wakes in
time; when it gets other work or stops, it wakes another client, which takes the alarm. A client whose
connection is lost during its sleep waits for a random part of the remaining time, so that a thousand clients
do not return at once.

- *A wait ends in time*, though no client polls. Redis ends an expired BLPOP when its event loop turns: on the
  tick of its `hz`, every 100 ms by default, or when anything wakes it (`handleBlockedClientsTimeout` in
  `beforeSleep`, from Redis 6.0 on, and in Valkey). So 1 ms after the end of its wait the client sends a PING
  over the connection that is blocked. Redis wakes, ends the BLPOP, and answers the PING; both replies are
  read. If the BLPOP reached the server late, the first PING comes too early; more follow, at growing
  intervals, up to the length of a tick. A user without the right to PING is refused, which wakes the server
  as well. At last the timeout of the connection ends the wait.
- *Lapsed leases come first.* A claim sweeps them before it hands anything out, ten messages in its call. If
  more have lapsed, it hands out nothing, sweeps 15 more, and asks to be repeated (`wait` 0); after 40 such
  rounds (1,000 messages, the largest claim) it takes ready messages, so after a mass crash a consumer still
  gets work within a few milliseconds. A claim that finds nothing continues until everything that lapsed is
  swept, or until its consumer stops: an empty list means that nothing was ready. It gives up after a thousand
  calls (more than 10,000 messages), since a lease that no sweep can remove would keep it forever.
- *Suspects*, which may have killed their worker, are claimed alone: lua/choose.lua and `worker/claiming.py`.
- *What this program does not accept* is passed on to another version of it: `passing_on`.

`consume` (a loop) lets acks ride in the round trip of its next claim (`core/steps/riding.py`):

- *A deferred ack is not reported as done.* `delivery.ack()` in a loop returns "deferred", and `outcome` says
  so until the ack is made. `queue.ack([delivery])` acks at once. If Redis cannot be reached, deferred acks
  become unsettled again, and `delivery.ack()` repeats them.
- *A lost lease is raised by the next step* and ends the loop, since a generator that has raised is finished.
  The error comes from the `for`, not from the `with` block, which has ended. The other acks of that round
  trip are done, and the messages that it claimed are released.
- *It keeps what it has not handed out.* The messages of a claim share one lease. Before a loop hands out the
  next one it extends that lease, in the round trip of its ack, once a tenth of it is gone by the client's
  clock: each message begins with nine tenths of a lease at least, and quick work extends nothing. A caller
  whose one message takes longer than the lease has lost the rest, which is then dropped at once, with one
  call. No thread extends behind the caller's back: one that hangs must lose its messages.
- *`with delivery:` looks at that clock, too*, and raises `LeaseLost` before the work rather than after it.
  The client hears of a lease after it has begun, so by its own steady clock it never ends too early; the
  server's time is not asked (I11).
- *Leaving* acks and releases in one round trip. Only the delivery of the current step and those not handed
  out are released: an earlier one may have been passed to a thread, which can ack it after the loop, too.
  After `break` no caller can get an error of the generator, so it is logged (its weak reference is gone by
  then); closing the generator raises it.
- *With a count above 1* an ack waits for others at most 5 ms and one message, so a slow message does not hold
  up the acks before it until the common lease ends.
- *A worker* makes acks in a round trip of their own only while its messages take long or its claim waits; all
  others ride. If a claim fails they stay with the worker. A forked child forgets the loop of its parent.
"""
