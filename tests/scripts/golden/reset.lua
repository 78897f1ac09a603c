-- Restarts the totals: messages in the queue now count as sent, so that the sums still add up (I1). Returns how many they
-- are. The last birth and the time of a rate stay.
local act = ARGV[1] -- as in lib/note_act
local messages, counters, audit = KEYS[1], KEYS[2], KEYS[3]
-- A setting that is JSON, as a table; an empty one if it cannot be read, since that must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
-- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
end
-- Records an act of an operator that takes one call.
--   act: as in lib/note_act; empty: no note
local function note_once(act)
  local told = read_json(act)
  if told[1] then
    note_audit(told[2], told[3], told[4], 'act', told[1], 'chosen', told[5], 'how', told[6])
  end
end
for _, name in ipairs(redis.call('HKEYS', counters)) do
  if name ~= 'birth' and name ~= 'rate_until' then
    redis.call('HDEL', counters, name)
  end
end
redis.call('HSET', counters, 'sent', redis.call('HLEN', messages))
note_once(act)
return redis.call('HLEN', messages)
