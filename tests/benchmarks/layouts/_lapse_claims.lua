-- Lapsed leases, one for each claim: what the claim still holds goes back.
for _, old in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 1)) do
  for id in redis.call('HGET', claims, old):match('\n.*'):gmatch('[^\n]+') do
    local text = state_of(id)
    if holds(old, text) then
      give_back(id, text)
    end
  end
  redis.call('ZREM', leases, old)
  redis.call('HDEL', claims, old, old .. ':held')
end
