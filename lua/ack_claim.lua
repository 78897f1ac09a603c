-- Done: all that a claim still holds is gone; what was settled one by one, or came back, is not its own any more.
-- Returns how many.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local leases, claims, counters, settings, outcomes = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local token = ARGV[1]
local MOST = 1000 -- messages that a claim is given at most
-- @include lib/holds
-- @include lib/claimed
-- @include lib/remove_acked
local ids, held = claimed(token, 0, MOST), {}
local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
for n, id in ipairs(ids) do
  if holds(token, texts[n]) then
    held[#held + 1] = id
  end
end
if #held > 0 then
  remove_acked(held)
end
redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
return #held
