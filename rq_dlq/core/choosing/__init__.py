"""Choosing messages: reading and counting them.

There is one way to choose messages. A `Choice` reads ids, places, conditions, a limit and an order.
`queue.select(…)`, `queue.dlq`, `peek` and `purge` all build one, and `reading` turns it into pages of at most
250 messages; the verbs in `core/changing` do something with each page. The choice judges a message by its
group, reason, time of death and `where`, and says which parts of the message it reads for that. The client
judges, since verbs do not look into bodies. The verb that changes a message checks again that it is still
where it was seen.

- *Pages follow score and member, not rank.* Ranks shift when another client redrives or purges at the head. A
  page begins after the last row of the page before, so a message that stays in place is seen exactly once. A
  reading ends at the row that was last when it began, so it also ends while producers continue.
- *Only the needed parts are fetched.* Counting and redriving need ids; grouping needs states and histories;
  only headers and bodies need whole records. A page consists of rows, which become messages only for callers
  that need all parts, so a body that was not fetched cannot be read as empty.
- *One page is held at a time*, and the limit ends the reading. `redrive` and `prioritize` put messages where
  the reading could meet them again, so they choose all ids first. A redrive or purge of everything is done by
  verbs that find the messages themselves, also damaged ones and rows left by a call that was cut off.
- *A limit on a view* takes the messages that died first in any of its queues, by merging; so does a limit on
  a class of errors, which is several groups. Of all of them only states are read, then the first whole.
- *A whole page of waiting messages* is read by plain commands: `core/pages/plain.py`.
"""
