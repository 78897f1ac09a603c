-- Done, all or nothing: the end of a session that sends nothing. Returns a verdict for each item that is not held
-- (its place, 1, 2, …, and the verdict); if there is one, nothing was done.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local leases, claims, counters = KEYS[4], KEYS[5], KEYS[6]
-- items from ARGV[1]: id, token
-- The fence (I2): only the token that holds a message settles it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
-- What to say of a message that the caller's token does not hold. A token that settled it before is known, so
-- that a call whose reply was lost can be repeated (I12).
local SETTLED, SETTLED_BEFORE, LOST, GONE = 1, 2, 0, -1

local function refusal(id, token, text)
  if text and text:find(' -' .. token .. ' ', 1, true) then
    return SETTLED_BEFORE
  end
  return redis.call('HEXISTS', messages, id) == 1 and LOST or GONE
end
-- The lease goes with the last message of its claim.
local function let_go(token, count)
  if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
    redis.call('HDEL', claims, token, token .. ':held')
    redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
  end
end
-- The messages that were acked are gone, and with them everything that was kept about them (I13).
local function remove_acked(ids)
  redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
  redis.call('HDEL', history, unpack(ids))
  redis.call('HDEL', states, unpack(ids)) -- the last: by it a sweep knows an ack that was cut off
  redis.call('HINCRBY', counters, 'acked', #ids)
end
local ids, held, lost = {}, {}, {}
for i = 1, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local text = redis.call('HGET', states, id)
  local verdict = holds(token, text) and SETTLED or refusal(id, token, text)
  if verdict == SETTLED then
    ids[#ids + 1], held[token] = id, (held[token] or 0) + 1
  else
    lost[#lost + 1], lost[#lost + 2] = (i + 1) / 2, verdict
  end
end
if #lost == 0 then
  remove_acked(ids)
  for token, count in pairs(held) do
    let_go(token, count)
  end
end
return lost
