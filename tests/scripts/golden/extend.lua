-- Starts the lease anew. A claim has one lease, so everything that the token still holds is kept. Returns the new
-- deadline, then a verdict for each item.
-- drains
local lease = ARGV[1] -- milliseconds
-- items from ARGV[2]: id, token
local messages, states, leases = KEYS[1], KEYS[2], KEYS[3]
-- The server's clock in whole milliseconds, read once a script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The fence (I2): only the token that holds a message may settle it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
-- The verdicts on a message that was to be settled.
local SETTLED, SETTLED_BEFORE, LOST, GONE = 1, 2, 0, -1
-- The verdict on a message that the caller's token does not hold. A token that settled it before is known, so that a
-- call whose reply was lost can be repeated (I12).
local function refusal(id, token, text)
  if text and text:find(' -' .. token .. ' ', 1, true) then
    return SETTLED_BEFORE
  end
  return redis.call('HEXISTS', messages, id) == 1 and LOST or GONE
end
local ids, reply = {}, { now + lease }
for i = 2, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end
local texts = redis.call('HMGET', states, unpack(ids))
for n, id in ipairs(ids) do
  local token = ARGV[2 * n + 1]
  local held = holds(token, texts[n])
  if held then
    redis.call('ZADD', leases, now + lease, token)
  end
  reply[n + 1] = held and SETTLED or refusal(id, token, texts[n])
end
return reply
