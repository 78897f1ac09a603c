-- The lease goes with the last message of its claim.
local function let_go(token, count)
  if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
    redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
    redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
  end
end
