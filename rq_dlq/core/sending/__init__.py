"""Sending messages, and putting exported ones back.

`send` returns a `Sent`, a `str` with `new` and `known`. The verb reads the record of a known id anyway, and
looks for its place only then, so a send of a new message costs nothing more. The answer is stored in the
sender's register, so a repetition gives the same answer. It also has the births of the new messages: that of
the first, which the others follow one by one. So a `Sent` can ask for its own message (lua/results.lua).

- *Warnings and counts are for dead letters only.* A known id in another state is the purpose of an id; the id
  of a dead letter sends nothing until the letter is redriven or purged.
- *Every way to send*: `send`, `send_many` and tasks return it. A session returns `new` None, and its commit
  warns. A schedule's tick has an id of its own, and no caller. Lines of `rq-dlq send` have drawn ids. A job
  of Spark counts the known rows in its log. `dlq import` lists the messages that it left out. All of them
  count in `totals.known`, except the import, which sends nothing.
- *Times*: `at` and `expires_at` reach the scripts as times, which the server compares with its own clock: the
  difference to a sender's clock is not added to a wait. `values/times.py` says how one number is either a
  time or a duration. A past `at` is due now, since the message is late already. A past `expires_at` is
  refused, before anything is written, a whole session too: no consumer would get the message. A repetition of
  a call that was done is answered as that was. What was accepted before is not refused later: a row of an
  outbox, and a message of a job, expire at once if their time has passed when they are moved to the queue. A
  staged list of a session has durations, from the clock at its staging, since a process of 0.1.0 may move it;
  and 0.1.0 refuses a schedule whose ttl is below 0, as one of a later version.
- *Limits of length* are in lua/length.lua, remembered ids in lua/acks.lua.
"""
