-- Puts the row of a message of a later form behind the others: a ready one waits for a while in `scheduled`, a dead or
-- expired one goes to the end of its index; a scheduled one stays, or it would be due at another time.
-- needs: now, AGAIN; keys: ready, scheduled, counters
-- gives: put_off
local function put_off(index, row)
  if index == ready then
    redis.call('ZADD', scheduled, now + AGAIN, row)
    redis.call('ZREM', ready, row)
    redis.call('HINCRBY', counters, 'put_off', 1)
  elseif index ~= scheduled then
    redis.call('ZADD', index, now, row)
  end
end
