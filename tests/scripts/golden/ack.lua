-- Done: the messages are gone.
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

-- Settles the items (id, token, …) that begin at ARGV[first]: calls act(id, text, i) for those whose token
-- holds, i being the item's place in ARGV, then finish(), then lets their leases go. Returns for each item a
-- verdict, or what act said became of it.
local function settle(first, width, act, finish)
  local ids, verdicts, let, done = {}, {}, {}, {}
  for i = first, #ARGV, width do
    ids[#ids + 1] = ARGV[i]
  end
  local texts = redis.call('HMGET', states, unpack(ids))
  for n, id in ipairs(ids) do
    local i = first + (n - 1) * width
    local token = ARGV[i + 1]
    if done[id] then
      verdicts[n] = SETTLED_BEFORE
    elseif holds(token, texts[n]) then
      verdicts[n] = act(id, texts[n], i) or SETTLED
      done[id], let[token] = true, (let[token] or 0) + 1
    else
      verdicts[n] = refusal(id, token, texts[n])
    end
  end
  if next(done) and finish then
    finish()
  end
  for token, count in pairs(let) do
    let_go(token, count)
  end
  return verdicts
end
-- The messages that were acked are gone, and with them everything that was kept about them (I13).
local function remove_acked(ids)
  redis.call('HDEL', messages, unpack(ids)) -- from here on they are acked
  redis.call('HDEL', history, unpack(ids))
  redis.call('HDEL', states, unpack(ids)) -- the last: by it a sweep knows an ack that was cut off
  redis.call('HINCRBY', counters, 'acked', #ids)
end
local acked = {}
return settle(1, 2, function(id)
  acked[#acked + 1] = id
end, function()
  remove_acked(acked)
end)
