-- Takes settled messages off their claims. A lease is removed with the last of its messages.
--   counts: token → how many
-- needs: keys: leases, claims
-- gives: let_go
local function let_go(counts)
  for token, count in pairs(counts) do
    if redis.call('HINCRBY', claims, token .. ':held', -count) <= 0 then
      redis.call('HDEL', claims, token, token .. ':held')
      redis.call('ZREM', leases, token) -- last: by this row a sweep finds what a cut-off script left
    end
  end
end
