-- The move of due messages: from the scheduled to the ready. Only the index moves; the state says the same.
local function promote(limit)
  local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  local places, members = {}, {}
  for i = 1, #rows, 2 do
    members[#members + 1] = rows[i]
    places[#places + 1] = score_of(9 - rows[i]:byte(1), tonumber(rows[i + 1]))
    places[#places + 1] = rows[i]
  end
  if #members > 0 then
    redis.call('ZADD', ready, unpack(places))
    redis.call('ZREM', scheduled, unpack(members))
  end
  return #members
end
