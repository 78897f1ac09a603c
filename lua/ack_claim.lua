-- Acks all that a claim still holds. What was settled one by one, or came back, is no longer its own. Returns how
-- many messages went.
-- drains
local token = ARGV[1]
-- needs: claimed, holds, remove_acked; keys: states, leases, claims
local ids, held, held_texts = claimed(token), {}, {}
local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
for n, id in ipairs(ids) do
  if holds(token, texts[n]) then
    held[#held + 1], held_texts[#held + 1] = id, texts[n]
  end
end
if #held > 0 then
  remove_acked(held, held_texts)
end
redis.call('HDEL', claims, token, token .. ':held')
redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
return #held
