-- Starts the totals anew: what is in the queue now counts as sent, so that the sums still add up (I1). Returns how
-- many messages that is. The last birth and the time of a rate go on.
local act = ARGV[1] -- as in lib/note_act
local messages, counters, audit = KEYS[1], KEYS[2], KEYS[3]
-- A setting that is JSON, as a table; an empty one where it cannot be read, since that must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
-- Notes what an operator did, or had done; the newest thousand notes of a queue stay.
--   did: what was done, in a word; by: who, as JSON; user: of Redis; then more, names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and be there again
end
-- Notes an act of an operator that takes one call.
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
