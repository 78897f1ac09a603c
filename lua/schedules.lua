-- Schedules, which clients read and advance: their records, and the messages of their ticks.

-- Writes the record of a schedule, or removes it, and sends the message of a tick with it. Returns DONE; or nothing was
-- done: OUTDATED: another client was faster, so each tick is sent once; EARLY: before the tick; FULL: the queue; DELETED.
function Verbs.schedule(q, ARGV)
  local name, known, record = ARGV[1], ARGV[2], ARGV[3] -- known: the record that was read; both empty: no record
  local at, tick, ttl, opening = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] -- at: of the check; empty: never
  local act = ARGV[8] -- as in Audit.note_act; empty: a tick
  -- items from ARGV[9]: id, payload
  if not Queue.is_open(q, opening) then
    return Reply.DELETED
  elseif (redis.call('HGET', q.schedules, name) or '') ~= known then
    return Reply.OUTDATED
  elseif tick > q.now then
    return Reply.EARLY
  end
  if #ARGV > 8 and not Send.add(q, ARGV, 9, #ARGV, 0, ttl, '', false, Length.over) then
    return Reply.FULL
  end
  if at ~= '' then
    redis.call('ZADD', q.ticks, 'NX', at, name) -- first, so that each record is found
  end
  if record == '' then
    redis.call('HDEL', q.schedules, name)
  else
    redis.call('HSET', q.schedules, name, record) -- from here on the tick is sent
  end
  if at ~= '' then
    redis.call('ZADD', q.ticks, at, name)
  else
    redis.call('ZREM', q.ticks, name)
  end
  if act ~= '' then
    Audit.note_once(q, act)
  end
  return Reply.DONE
end

-- Returns the schedules that are due: the clock, then name and record of each. Drops an entry without a record.
-- drains
function Verbs.due(q, ARGV)
  local limit = ARGV[1]
  local found = { q.now }
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', q.ticks, '-inf', q.now, 'LIMIT', 0, limit)) do
    local record = redis.call('HGET', q.schedules, name)
    if record then
      found[#found + 1], found[#found + 2] = name, record
    else
      redis.call('ZREM', q.ticks, name)
    end
  end
  return found
end
