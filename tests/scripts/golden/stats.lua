-- Counts the messages of a queue. Returns now; the numbers by state; the oldest ready, the next due and the next lapse
-- (times; empty: none); 1 if the queue is paused; how many messages are in no index and no claim; how many wait for a seat
-- of their lanes, which count as scheduled; then the counters since the queue began, name by name.
local messages, ready, scheduled, dead, expired = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, counters, settings = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- How many messages are in no index and in no claim that has a lease. Each message is in one of them, unless another
-- program deleted or restored a key. With more than MOST claims the number is unknown: 0.
local MOST, PAGE = 5000, 1000 -- claims that one call reads (I9), and a page of them

local function count_orphans()
  local count = redis.call('HLEN', messages)
  for _, index in ipairs({ ready, scheduled, dead, expired }) do
    count = count - redis.call('ZCARD', index)
  end
  if count <= 0 or redis.call('ZCARD', leases) > MOST then
    return 0
  end
  for first = 0, MOST - 1, PAGE do
    local tokens = redis.call('ZRANGE', leases, first, first + PAGE - 1)
    for n, token in ipairs(tokens) do
      tokens[n] = token .. ':held'
    end
    for _, held in ipairs(#tokens > 0 and redis.call('HMGET', claims, unpack(tokens)) or {}) do
      count = count - (tonumber(held or 0) or 0)
    end
    if #tokens < PAGE then
      break
    end
  end
  return math.max(count, 0)
end
-- The score in `scheduled` of a message that waits for a seat of its lane is this and the lane. As a time: the year 2248.
local BLOCKED = 2 ^ 43
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
