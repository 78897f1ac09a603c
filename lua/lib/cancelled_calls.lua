-- How many calls of cancelled messages count against `max_in_flight`. A place without a lease is removed: another program
-- ended its claim; and one whose message is still held, since the cancel was cut off. If none is left, claims look for none.
-- needs: holds, PLACES; keys: states, leases, seats, settings
-- gives: cancelled_calls
local READ = 100 -- places that one claim checks (I9)

local function cancelled_calls()
  local count = redis.call('ZCOUNT', seats, PLACES, PLACES)
  for _, place in ipairs(redis.call('ZRANGEBYSCORE', seats, PLACES, PLACES, 'LIMIT', 0, READ)) do
    local token, id = place:match('^.(%S+) (.*)$')
    if not redis.call('ZSCORE', leases, token) or holds(token, redis.call('HGET', states, id)) then
      redis.call('ZREM', seats, place)
      count = count - 1
    end
  end
  if count == 0 then
    redis.call('HDEL', settings, 'cancelling')
  end
  return count
end
