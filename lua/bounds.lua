-- What one call does at most, however much a queue holds (I9): no other call runs meanwhile.
--
-- Half a megabyte takes about 2 ms. So a call hands out or writes at most that, or one message, and reads no long record to
-- judge its message (record.lua): otherwise a nack of 250 messages of 900 kB would take 225 calls.
--
-- - A claim leases the messages that fit, with their histories, so it may return fewer than were asked for. One that is
--   not fresh (delivered or moved before, long, of a gather) takes 10 µs more, and counts as 4 kB more; a first delivery
--   that was delayed, expires or is sent for its result counts as 1 kB more. A claim makes at most 138 due ones ready, and
--   moves ten messages in each other step of maintenance.
-- - Where keys have a rate or take turns, a message takes a slot or gives back a seat, which admits another; after a rule
--   allows less, it may lose its seat. That takes as long as ten others. So a claim takes, passes, blocks or parks at most
--   100 there, and a call moves at most 100 due messages before it gives a seat: with a rate 3.4 ms of Redis, the 99th of
--   100, in place of 44.7 (`python -m tests.benchmarks.bounds`).
-- - A page of `scan` ends early and says where the next one begins; `browse` says how many ids it looked at.
-- - The client divides `send_many` and staged lists by bytes; and what writes whole records (`prioritize`, `transfer`, a
--   redrive to another queue) by the lengths in the states. A large session is staged (rq_dlq/core/sessions).
-- - A full history is 20 kB, so verbs that write one change 20 messages in a call.
Bounds.BYTES = 524288 -- of records and histories that it reads or writes, or one message: 2 ms
Bounds.ROWS = 1000 -- rows of an index that it checks, of which most stay as they are
-- Lanes, and messages of lanes: each may take a seat or a slot, or give one back, which admits another message. That takes
-- as long as ten other messages.
Bounds.LANES = 100
