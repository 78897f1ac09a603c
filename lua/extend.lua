-- The lease starts anew: the lease of a claim is one, so all that the token still holds is kept.
local messages, states, leases = KEYS[1], KEYS[2], KEYS[3]
local lease = ARGV[1] -- milliseconds
-- items from ARGV[2]: id, token
-- @include lib/now
-- @include lib/holds
-- @include lib/refusal
-- Returns the new deadline, then a verdict for each item.
local ids, reply = {}, { now + lease }
for i = 2, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end
local texts = redis.call('HMGET', states, unpack(ids))
for n, id in ipairs(ids) do
  local token = ARGV[2 * n + 1]
  local held = holds(token, texts[n])
  if held then
    redis.call('ZADD', leases, now + lease, token)
  end
  reply[n + 1] = held and SETTLED or refusal(id, token, texts[n])
end
return reply
