-- Writes the lease of a claim, the list of its messages, and their states. Then removes the rows of `source` that it
-- took, with those of messages that were buried or are no more.
-- needs: now; keys: states, expiring, leases, claims; args: token, lease, consumer, suspects, answer
-- gives: lease_chosen
local function lease_chosen(source, taken, chosen, leased, mortal)
  if #chosen > 0 then
    redis.call('ZADD', leases, now + lease, token)
    local kind = answer == 'count' and '\tbatch' or suspects ~= 'all' and '\tworker' or '' -- a sweep remembers it
    redis.call('HSET', claims, token, consumer .. kind .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
    redis.call('HSET', states, unpack(leased)) -- from here on they are leased
  end
  redis.call('ZREM', source, unpack(taken))
  if #mortal > 0 then
    redis.call('ZREM', expiring, unpack(mortal))
  end
end
