-- Restarts leases. A claim has one lease, so all messages that the token still holds are kept. Returns the new deadline,
-- then a verdict for each item. A cancelled message is no longer held, but its call keeps its lease, its seat and its place.
-- drains
local lease, only_later = ARGV[1], ARGV[2] -- milliseconds; 1: a lease that ends later is left as it is
-- items from ARGV[3]: held (lib/settled)
-- needs: now, holds, SETTLED, refusal; keys: states, leases
local first, reply = 3, { now + lease }
local option = only_later == '1' and 'GT' or 'CH' -- CH changes only the reply of ZADD
local asked, n = tonumber(ARGV[first]), 0
local texts = redis.call('HMGET', states, unpack(ARGV, first + 1, first + asked))
for at = first + asked + 1, #ARGV, 2 do
  local token = ARGV[at]
  for _ = 1, tonumber(ARGV[at + 1]) do
    n = n + 1
    local id, held, runs = ARGV[first + n], holds(token, texts[n]), false
    reply[n + 1] = held and SETTLED or refusal(id, token, texts[n])
    if not held then
      -- needs: cancelled_seat, cancelled_place; keys: seats
      local kept = redis.call('ZMSCORE', seats, cancelled_seat(id, token), cancelled_place(id, token))
      runs = kept[1] or kept[2]
    end
    if held or runs then
      redis.call('ZADD', leases, option, now + lease, token)
    end
  end
end
return reply
