-- Restarts leases. A claim has one lease, so all messages that the token still holds are kept. Returns the new deadline,
-- then a verdict for each item. A cancelled message is no longer held, but its call keeps its lease, its seat and its place.
-- drains
local lease, only_later = ARGV[1], ARGV[2] -- milliseconds; 1: a lease that ends later is left as it is
-- items from ARGV[3]: held (lib/settled)
local messages, states, leases, seats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- The server's clock in whole milliseconds, read once per script (I11).
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
-- The verdicts on a message that a caller settles.
local SETTLED, SETTLED_BEFORE, LOST, GONE = 1, 2, 0, -1
-- The verdict on a message that the caller's token does not hold. The state has the token that settled it, so that a call
-- whose reply was lost can be repeated (I12).
local function refusal(id, token, text)
  if text and text:find(' -' .. token .. ' ', 1, true) then
    return SETTLED_BEFORE
  end
  return redis.call('HEXISTS', messages, id) == 1 and LOST or GONE
end
local first, reply = 3, { now + lease }
local option = only_later == '1' and 'GT' or 'CH' -- CH changes only the reply of ZADD
local asked, n = tonumber(ARGV[first]), 0
local texts = redis.call('HMGET', states, unpack(ARGV, first + 1, first + asked))
for at = first + asked + 1, #ARGV, 2 do
  local token = ARGV[at]
  for _ = 1, tonumber(ARGV[at + 1]) do
    n = n + 1
    local id, held, runs = ARGV[first + n], holds(token, texts[n]), false
    reply[n + 1] = held and SETTLED or refusal(id, token, texts[n])
    if not held then
      -- The seat of a call whose message was cancelled: it stays taken until the call or its lease has ended, so that an ordered
      -- key never runs two calls. No id begins with this byte.
      local function cancelled_seat(id, token)
        return '\2' .. token .. ' ' .. id
      end
      -- The place, under `max_in_flight`, of a call whose message was cancelled: it stays taken until the call or its lease has
      -- ended. No id begins with this byte.
      local function cancelled_place(id, token)
        return '\3' .. token .. ' ' .. id
      end
      local kept = redis.call('ZMSCORE', seats, cancelled_seat(id, token), cancelled_place(id, token))
      runs = kept[1] or kept[2]
    end
    if held or runs then
      redis.call('ZADD', leases, option, now + lease, token)
    end
  end
end
return reply
