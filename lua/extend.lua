-- Starts the lease anew. A claim has one lease, so everything that the token still holds is kept. Returns the new
-- deadline, then a verdict for each item.
-- drains
local lease = ARGV[1] -- milliseconds
-- items from ARGV[2]: id, token
-- needs: now, holds, SETTLED, refusal; keys: states, leases
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
