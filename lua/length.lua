-- How many messages a queue may have: those that are ready, scheduled or leased count.
--
-- Ready, scheduled and leased messages are the records of the queue without its dead and expired ones: three numbers
-- that Redis has, so nothing is kept. But a send names two keys more, also to a queue without a limit: 4 to 5 % more
-- instructions for one message, 1 % for a hundred. A verb of its own for queues with a limit would take that back.
--
-- - Sends, commits, ticks, and an operator's moves and copies ask. A message of the queue comes back whenever it has
--   to: nacks, lapses, releases, redrives, also those to another queue. A dead letter does not count until it is
--   redriven. Messages of Spark's jobs are never refused, since their rows are committed before they are moved.
-- - What is sent together is refused together, before anything is written, and the refusal is not noted as a call that
--   was done. Known ids are not counted. A commit goes by what it acks in the same queue. A session of more than half a
--   megabyte is refused: it is moved after its commit, and other senders could fill the queue meanwhile. The relay of
--   an outbox makes the call again, and rows of other queues continue.

-- How many more messages a queue may take, and how many it has; nil: it has no limit.
--   limit: its max_length, as it is set
function Length.room(q, limit)
  limit = limit:match('^[1-9]%d*$')
  if limit then
    local count = redis.call('HLEN', q.messages) - redis.call('ZCARD', q.dead) - redis.call('ZCARD', q.expired)
    return tonumber(limit) - count, count
  end
end

-- How many messages a queue has that has no room for so many more; otherwise nil.
function Length.over(q, limit, more)
  local room, count = Length.room(q, limit)
  return room and more > 0 and more > room and count or nil
end
