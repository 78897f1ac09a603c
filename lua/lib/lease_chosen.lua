-- Writes the lease of a claim, the list of its messages, and their states. Then removes the rows of `source` that it
-- took, with those of messages that were buried or are no more.
-- needs: now; keys: states, expiring, leases, claims; args: token, lease, consumer, suspects
-- gives: lease_chosen
local function lease_chosen(source, taken, chosen, leased, mortal)
  if #chosen > 0 then
    redis.call('ZADD', leases, now + lease, token)
    local maker = suspects == 'all' and consumer or consumer .. '\tworker' -- which a sweep remembers
    redis.call('HSET', claims, token, maker .. '\n' .. table.concat(chosen, '\n'), token .. ':held', #chosen)
    redis.call('HSET', states, unpack(leased)) -- from here on they are leased
  end
  redis.call('ZREM', source, unpack(taken))
  if #mortal > 0 then
    redis.call('ZREM', expiring, unpack(mortal))
  end
end
