-- A part of what a claim was given, as far as it still holds it: the same messages to whoever asks again. Touches
-- nothing. Returns id, record, state, history for each.
local messages, states, history, claims = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, first, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- first: a place in its list, from 0
-- The fence (I2): only the token that holds a message settles it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
-- The ids that a claim was given, of `limit` places of its list from `first` on. What a sweep or a division took
-- away left its place empty, so that a place means the same message for as long as the claim lives.
local function claimed(token, first, limit)
  local list = (redis.call('HGET', claims, token) or ''):match('\n(.*)$') or ''
  local ids, place = {}, 0
  for id in (list .. '\n'):gmatch('([^\n]*)\n') do
    if place >= first + limit then
      break
    end
    if id ~= '' and place >= first then
      ids[#ids + 1] = id
    end
    place = place + 1
  end
  return ids
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
