-- Returns the schedules that are due: the clock, then name and record of each. Drops an entry without a record.
-- drains
local limit = ARGV[1]
local schedules, ticks = KEYS[1], KEYS[2]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
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
