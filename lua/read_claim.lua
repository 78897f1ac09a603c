-- Reads a part of what a claim was given, as far as the claim still holds it; the same messages on every call.
-- Changes nothing. Returns id, record, state and history for each.
local token, first, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) -- first: a line of its list, from 0
-- needs: claimed, holds; keys: messages, states, history
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
