-- Writes the record of a schedule, or removes it, and sends the message of a tick with it. If the record is not the one
-- that the client read, another client was faster: then nothing is done, so each tick is sent once. Nothing is done before
-- the tick. Returns 1, or 0 if nothing was done; -1 if the queue was deleted since the client opened it.
local name, known, record = ARGV[1], ARGV[2], ARGV[3] -- known: the record that was read; both empty: no record
local at, tick, ttl, opening = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] -- at: when to check it; empty: never
local act = ARGV[8] -- as in lib/note_act; empty: a tick
-- items from ARGV[9]: id, payload
-- needs: now, is_open; keys: schedules, ticks
if not is_open then
  return -1
elseif (redis.call('HGET', schedules, name) or '') ~= known or tick > now then
  return 0
end
if #ARGV > 8 then
  -- needs: add
  add(ARGV, 9, #ARGV, 0, ttl, '')
end
if at ~= '' then
  redis.call('ZADD', ticks, 'NX', at, name) -- first, so that each record is found
end
if record == '' then
  redis.call('HDEL', schedules, name)
else
  redis.call('HSET', schedules, name, record) -- from here on the tick is sent
end
if at ~= '' then
  redis.call('ZADD', ticks, at, name)
else
  redis.call('ZREM', ticks, name)
end
if act ~= '' then
  -- needs: note_once
  note_once(act)
end
return 1
