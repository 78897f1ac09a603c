-- Starts the lease anew. A claim has one lease, so everything that the token still holds is kept. Returns the new
-- deadline, then a verdict for each item.
-- drains
local lease = ARGV[1] -- milliseconds
-- items from ARGV[2]: held (lib/settled)
-- needs: now, holds, SETTLED, refusal; keys: states, leases
local first, reply = 2, { now + lease }
local asked, n = tonumber(ARGV[first]), 0
local texts = redis.call('HMGET', states, unpack(ARGV, first + 1, first + asked))
for at = first + asked + 1, #ARGV, 2 do
  local token = ARGV[at]
  for _ = 1, tonumber(ARGV[at + 1]) do
    n = n + 1
    local held = holds(token, texts[n])
    reply[n + 1] = held and SETTLED or refusal(ARGV[first + n], token, texts[n])
    if held then
      redis.call('ZADD', leases, now + lease, token)
    end
  end
end
return reply
