-- Returns the schedules that are due: the clock, then name and record of each. Drops an entry without a record.
-- drains
local limit = ARGV[1]
-- needs: now; keys: schedules, ticks
local found = { now }
for _, name in ipairs(redis.call('ZRANGEBYSCORE', ticks, '-inf', now, 'LIMIT', 0, limit)) do
  local record = redis.call('HGET', schedules, name)
  if record then
    found[#found + 1], found[#found + 2] = name, record
  else
    redis.call('ZREM', ticks, name)
  end
end
return found
