-- Counts the messages of a queue. Returns now; the numbers by state; the oldest ready, the next due and the next lapse
-- (times; empty: none); 1 if the queue is paused; how many messages are in no index and no claim; how many wait for a seat
-- of their lanes, which count as scheduled; then the counters since the queue began, name by name.
-- needs: now, count_orphans, BLOCKED; keys: messages, ready, scheduled, dead, expired, leases, counters, settings
local function head(index)
  return redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or ''
end
local waiting = { redis.call('ZCARD', ready), redis.call('ZCARD', scheduled) }
local over = { redis.call('ZCARD', dead), redis.call('ZCARD', expired) }
local orphans = count_orphans()
local leased = redis.call('HLEN', messages) - waiting[1] - waiting[2] - over[1] - over[2] - orphans
local reply = { now, waiting[1], waiting[2], leased, over[1], over[2] }
reply[7], reply[8], reply[9] = head(ready), head(scheduled), head(leases)
local pause = redis.call('HMGET', settings, 'paused', 'paused_until')
reply[10] = pause[1] == '1' and (tonumber(pause[2] or nil) or math.huge) > now and 1 or 0
reply[11] = orphans
reply[12] = redis.call('ZCOUNT', scheduled, BLOCKED, '+inf')
if reply[12] == waiting[2] then
  reply[8] = '' -- nothing falls due
end
for _, cell in ipairs(redis.call('HGETALL', counters)) do
  reply[#reply + 1] = cell
end
return reply
