-- Reads a part of what a claim was given, as far as the claim still holds it; the same messages on every call.
-- Changes nothing. Returns id, record, state and history for each.
local token, first, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- first: a line of its list, from 0
local messages, states, history, claims = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- The ids that a claim was given: those on `limit` lines of its list, from line `first` (0, 1, …). What a sweep or a
-- division took away leaves its line empty, so a line means the same message for as long as the claim lives.
local function claimed(token, first, limit)
  local list = (redis.call('HGET', claims, token) or ''):match('\n(.*)$') or ''
  local ids, position = {}, 0
  for id in (list .. '\n'):gmatch('([^\n]*)\n') do
    if position >= first + limit then
      break
    end
    if id ~= '' and position >= first then
      ids[#ids + 1] = id
    end
    position = position + 1
  end
  return ids
end
-- The fence (I2): only the token that holds a message may settle it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
local ids, reply = claimed(token, first, limit), {}
if #ids == 0 then
  return reply
end
local records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
local stories = redis.call('HMGET', history, unpack(ids))
for n, id in ipairs(ids) do
  if records[n] and holds(token, texts[n]) then
    local size = #reply
    reply[size + 1], reply[size + 2], reply[size + 3] = id, records[n], texts[n]
    reply[size + 4] = stories[n] or ''
  end
end
return reply
