-- A part of what a claim was given, as far as it still holds it: the same messages to whoever asks again. Touches
-- nothing. Returns id, record, state, history for each.
local messages, states, history, claims = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, first, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- first: a place in its list, from 0
-- @include lib/holds
-- @include lib/claimed
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
