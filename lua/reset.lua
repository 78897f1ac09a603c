-- Restarts the totals: messages in the queue now count as sent, so that the sums still add up (I1). Returns how many they
-- are. The last birth and the time of a rate stay.
local act = ARGV[1] -- as in lib/note_act
-- needs: note_once; keys: messages, counters
for _, name in ipairs(redis.call('HKEYS', counters)) do
  if name ~= 'birth' and name ~= 'rate_until' then
    redis.call('HDEL', counters, name)
  end
end
redis.call('HSET', counters, 'sent', redis.call('HLEN', messages))
note_once(act)
return redis.call('HLEN', messages)
