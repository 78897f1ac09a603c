-- The lease goes with the last message of its claim.
local function let_go(token, count)
  if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
    redis.call('ZREM', leases, token)
    redis.call('HDEL', claims, token, token .. ':held')
  end
end
