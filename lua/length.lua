-- How many messages a queue may have: those that are ready, scheduled or leased count.

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
