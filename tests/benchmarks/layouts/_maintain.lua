-- What is due in the sorted sets ready, scheduled and expiring; each step bounded.
local STEPS = 100

-- Back to its old place.
local function give_back(id, text)
  local record, state, _, due = record_of(id), lapsed(text)
  local priority, birth = priority_of(record), unpack_number(record, 1, 7)
  due = due or math.floor(birth / 4096)
  redis.call('ZADD', ready, score_of(priority, due), member_of(id, priority, birth, due))
  if expiry_of(record) then
    redis.call('ZADD', expiring, expiry_of(record), id)
  end
  set_state(id, state)
end

local function promote()
  local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, STEPS + count)
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
end

local function expire()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, STEPS)) do
    local record = record_of(id)
    local priority, birth = priority_of(record), unpack_number(record, 1, 7)
    local delayed = member_of(id, priority, birth, 0)
    redis.call('ZREM', ready, member_of(id, priority, birth, math.floor(birth / 4096)), delayed)
    redis.call('ZREM', scheduled, delayed)
    redis.call('ZREM', expiring, id)
    drop(id)
    redis.call('HINCRBY', counters, 'expired', 1)
  end
end
