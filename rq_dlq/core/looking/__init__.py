"""Reads for people: one message, all queues, the outcome history, the audit.

- *One judge.* `trouble` decides by an overview which queues have problems, how bad and since when. The page,
  `rq-dlq top` and `rq-dlq mcp` only show that; a test compares its limits with those of the alert rules.
- *A value that holds the workers* (`holder`). If the oldest message of a queue waits for over a minute, an
  overview reads up to a hundred leased messages, and the first and the last fifty that wait. It names a
  header value, a key, or a dependency that most leased messages have, but not all waiting ones. Values that
  all have, and ids and traces, which occur once, are not named; nor are headers with names of secrets.
- *Too few workers or slow calls* look alike from outside, so the judge says neither: it says how many
  messages the workers report to hold, and the oldest of these for how long. Leases do not tell since when, as
  they are renewed.
- *Overviews* do not wait for lost nodes: `overview().unreachable` has the queues that could not be read,
  apart from `queues`, so that a queue without figures does not look like an empty one. An overview is not
  repeated either: a monitor that looks once a second should not wait 5 s for each dead node. The first one
  needs the list of queues, and waits for it; later ones use the names of the overview before, and `unlisted`
  says so.
- *The verb that makes a change writes the audit*, so a change is recorded even if the client died halfway, or
  memory is full. A purge of 240 dead letters is 12 calls and one record: each adds a record with the sum so
  far, and removes the one before, which it finds by the id that the client gave to the call. Changes that
  belong to no queue (of the map of policies; deletions, for which the queue's own audit stays a month) are
  recorded by the client afterwards in `rq:audit`, which on a cluster is on another node than most queues. The
  default name is `user@host`: a process number would not name the operator. An automatic change (a canary
  that pauses its redrive) has its own name, not that of the person who began it. A test goes through the
  table of verbs, and fails for an operator's verb that leaves no record.
- *Outcome histories.* With a setting that is off by default, the verbs write an event to a stream of the
  queue when a message is acked, judged, buried, released, redriven, purged or moved. Off, it costs one field
  of an HMGET (2.3 % of a single claim + ack in Redis' instructions, less in batches); on, about as much again
  as the transition.
"""
