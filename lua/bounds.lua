-- What one call does at most, however much a queue holds (I9): no other call runs meanwhile.
--
-- Half a megabyte takes about 2 ms. So a call hands out or writes at most that, or one message; with a limit in bytes
-- alone, a nack of 250 messages of 900 kB would take 225 calls, so no verb reads long records (record.lua).
--
-- - A claim leases the messages that fit, with their histories, so it may return fewer than were asked for while more
--   are ready. The lengths of long records are in the states, which it has read already; short ones are read 250 at a
--   time.
-- - A message that is not fresh (delivered before, delayed, with a ttl) takes a claim about 10 µs more, and counts as 4
--   kB more: a claim takes at most 128 of them. It makes no more due ones ready than it can take, and ten. With 200,000
--   due at once a claim of 250 took 5.4 ms of Redis without that, and takes 2.9.
-- - Where keys have a rate or take turns, each message that is handed out takes a slot or gives back a seat, which
--   admits another; and after a rule allows less, each ready one may lose its seat. That takes as long as ten others.
--   So a claim takes, passes, blocks or parks at most 100 there, and a call moves at most 100 due messages before it
--   gives a seat. Milliseconds of Redis for a call, the 99th of 100, beside 2.5 for a plain claim of 1,000 (`python -m
--   tests.benchmarks.bounds`, two cores): a rate 3.4 (44.7 without the bound), order with a rate 3.9, turns 2.4 (35.6),
--   a limit of 8 4.5, 60,000 that fall due 3.0 (15.1). On a busier machine, beside 3.5: a rule that is turned on over
--   200,000 3.3 (6.7), 60,000 whose dependency is down 1.3 (7.0).
-- - A page of `scan` ends early and says where the next one begins; `browse` says how many ids it looked at.
-- - The client divides `send_many` and staged lists by bytes, and by the lengths in the states what writes whole
--   records: `prioritize`, `transfer`, a redrive to another queue. A large session is staged (rq_dlq/core/sessions).
-- - A full history is 20 kB, so verbs that write one change 20 messages in a call. `History.remember` looks for lines
--   with plain finds: a pattern, which looks at each byte, took 160 µs.
-- - A claim moves ten messages in each step of maintenance: with 500,000 leases and as many ttls ending at once, a
--   claim of 100 keeps Redis busy for 4.1 ms (the 99th of 100; 5.0 with 25).
Bounds.BYTES = 524288 -- of records and histories that it reads or writes, or one message: 2 ms
Bounds.ROWS = 1000 -- rows of an index that it checks, of which most stay as they are
-- Lanes, and messages of lanes: each may take a seat or a slot, or give one back, which admits another message. That takes as
-- long as ten other messages.
Bounds.LANES = 100
