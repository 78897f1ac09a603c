-- Takes settled messages off a claim. The lease goes with the last of them.
-- needs: keys: leases, claims
-- gives: let_go
local function let_go(token, count)
  if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
    redis.call('HDEL', claims, token, token .. ':held')
    redis.call('ZREM', leases, token) -- the last: by it a sweep finds what was cut off
  end
end
