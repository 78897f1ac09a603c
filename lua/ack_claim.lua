-- Acks all messages that a claim still holds, not those that were settled individually or redelivered. Returns how many.
-- drains
local token = ARGV[1]
-- needs: claimed, holds, remove_acked; keys: states, leases, claims
local ids, held, held_texts, size = claimed(token), {}, {}, 0
local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
local text, is_held -- most messages have the same state
for n, id in ipairs(ids) do
  if text ~= texts[n] then
    text, is_held = texts[n], holds(token, texts[n])
  end
  if is_held then
    size = size + 1
    held[size], held_texts[size] = id, text
  end
end
if size > 0 then
  remove_acked(held, held_texts, {})
end
redis.call('HDEL', claims, token, token .. ':held')
redis.call('ZREM', leases, token) -- last: by this row a sweep finds what a cut-off script left
return size
