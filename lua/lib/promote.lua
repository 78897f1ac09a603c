-- The move of due messages: from the scheduled to the ready. Only the index moves; the state says the same.
-- needs: now, score_of; keys: ready, scheduled
-- gives: promote
local function promote(limit)
  local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  local moved, members = {}, {}
  for i = 1, #rows, 2 do
    members[#members + 1] = rows[i]
    local first = rows[i]:byte(1)
    local priority = first < 10 and 9 - first or 4 -- or it was put off (lib/later)
    moved[#moved + 1], moved[#moved + 2] = score_of(priority, tonumber(rows[i + 1])), rows[i]
  end
  if #members > 0 then
    redis.call('ZADD', ready, unpack(moved))
    redis.call('ZREM', scheduled, unpack(members))
  end
  return #members
end
