-- Sends the new ones of the items: writes their rows, then their records. `sent` is how many are new; false if the queue
-- was deleted since the client opened it: then nothing was done. `known`: the items that it already had, each with the name
-- of its place (lib/with_places).
-- needs: packed, known, existing, opened, paused, records, places, blocked, new_seats, stated, deadlines, wake_one
-- needs: keys: messages, states, ready, scheduled, seats, expiring, counters; locals: delay, items, first
-- gives: sent
local sent = opened and packed
if packed > 0 then
  if new_seats and new_seats[1] then
    redis.call('ZADD', seats, unpack(new_seats))
  end
  if places[1] then
    redis.call('ZADD', delay > 0 and scheduled or ready, unpack(places))
  end
  if blocked then
    redis.call('ZADD', scheduled, unpack(blocked))
  end
  if stated then
    redis.call('HSET', states, unpack(stated))
  end
  if deadlines then
    redis.call('ZADD', expiring, unpack(deadlines))
  end
  redis.call('HSET', messages, unpack(records)) -- from here on they are sent
  redis.call('HINCRBY', counters, 'sent', packed)
  if not paused and places[1] and (delay == 0 or redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] == places[1]) then
    wake_one()
  end
end
if #known > 0 then
  -- needs: with_places
  known = with_places(known, items, first, existing)
end
