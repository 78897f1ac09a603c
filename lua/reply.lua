-- The words of replies. A verb replies with one in place of what it was asked for, or with one for each message. A word
-- means the same in every verb. rq_dlq/core/steps/replies.py has the same words, and the errors that callers get by them.

-- Of what was asked.
Reply.DONE = 'done'
Reply.DONE_BEFORE = 'done_before' -- another call has done it
Reply.UNCHANGED = 'unchanged' -- it is so already, or there is nothing to change
Reply.NOTHING = 'nothing' -- there are no messages to do it to
Reply.STOPPED = 'stopped' -- the redrive does not run

-- Nothing was done:
Reply.DELETED = 'deleted' -- the queue was deleted since the client opened it
Reply.OUTDATED = 'outdated' -- another client has changed what the caller had read
Reply.OVERTAKEN = 'overtaken' -- another run of the query has begun the batch
Reply.EARLY = 'early' -- its time has not come
Reply.PAST = 'past' -- the end of the pause, or of the time to live, has passed
Reply.DOWN = 'down' -- the breaker of the dependency is open, and stays so
Reply.UNLIMITED = 'unlimited' -- the rule for keys is not a limit
Reply.FULL = 'full' -- the queue has as many of these as it may have
Reply.LIMITED = 'limited' -- the queue has a limit of its length, and another verb sends to it
Reply.NOT_EMPTY = 'not_empty' -- the queue has messages, or lists that a job has committed
Reply.INCOMPLETE = 'incomplete' -- a list has expired, or is not as long as it was
Reply.KNOWN = 'known' -- the queue has these ids, or remembers them
Reply.UNKNOWN = 'unknown' -- the queue has no such message or redrive
Reply.LATER = 'later' -- only a later version can read it
Reply.WRONG_LANE = 'wrong_lane' -- the sender has another hash for lanes (Record.lane_of)
Reply.OLD_LANES = 'old_lanes' -- the lanes of the queue have the numbers of 0.1.0, and must be renumbered first
Reply.OVER = 'over' -- the gather takes no more children
Reply.CALLS_RUN = 'calls_run' -- calls run whose messages were cancelled

-- In place of the time that a client waits before it claims again:
Reply.NO_EVENT = 'no_event' -- no event is expected that it must look after
Reply.SUSPECTS = 'suspects' -- only suspects are ready, and it must not take them
Reply.GATHERED = 'gathered' -- before these, or a time, or after `acked`: shares of gathers must be carried

-- Of a message that a caller settles.
Reply.SETTLED = 'settled'
Reply.SETTLED_BEFORE = 'settled_before' -- by the same token: its reply was lost (I12)
Reply.LOST = 'lost' -- the token no longer holds it
Reply.GONE = 'gone' -- and it is not in the queue

-- Its outcome. Some are followed by a delay, in milliseconds, and by one of the last two and a dependency.
Reply.ACKED = 'acked'
Reply.REDELIVERED = 'redelivered'
Reply.DEAD = 'dead'
Reply.EXPIRED = 'expired'
Reply.DISCARDED = 'discarded'
Reply.KEPT = 'kept'
Reply.PASSED_ON = 'passed_on'
Reply.CANCELLED = 'cancelled'
Reply.UNCHARGED = 'uncharged' -- it is not charged, and opens the breaker of this dependency; empty: of none
Reply.CLOSED = 'closed' -- its ack closes the breaker of this dependency

-- Where a message is, if it is neither acked nor dead nor expired.
Reply.READY = 'ready'
Reply.SCHEDULED = 'scheduled'
Reply.LEASED = 'leased'
Reply.BATCH = 'batch' -- leased, by a batch of Spark
Reply.PENDING = 'pending' -- one of these; its result was asked for
Reply.UNASKED = 'unasked' -- one of these, or dead or expired; its result was not asked for

-- What a send did to a message that the queue knows.
Reply.REPLACED = 'replaced' -- it has the new body, headers, priority and time to live
Reply.POSTPONED = 'postponed' -- and waits anew
Reply.REDRIVEN = 'redriven'
Reply.AGAIN = 'again' -- one more run of it follows
Reply.OTHER_KEY = 'other_key' -- nothing, since it has another key or dependency
