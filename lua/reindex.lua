-- Puts messages back that are in no index and no claim (lib/count_orphans): a key was deleted, or only partly restored.
-- Scans all messages, some per call, while any is missing; the record and the state say where each belongs. Returns how
-- many messages it checked; 0: nothing is left to do, or only a later version can do it.
-- drains
local limit = tonumber(ARGV[1])
local PAUSE = 600000 -- milliseconds until it begins again, if it did not find all
local BYTES = 524288 -- bytes of records, or one message (I9)
-- needs: count_orphans; keys: messages, reindexed
local noted = redis.call('GET', reindexed)
if noted == 'done' or not noted and count_orphans() == 0 then
  return 0
end
-- needs: put_back, wake_one; keys: counters

-- Redis returns a small hash as a whole: the next call then continues after the messages that this one checked.
local cursor, skipped = (noted or '0 0'):match('^(%d+) (%d+)$')
local looked, bytes, back, is_over = 0, 0, 0, false
while looked < limit and bytes <= BYTES and not is_over do
  local reply = redis.call('HSCAN', messages, cursor, 'COUNT', 1)
  local next_cursor, page = reply[1], reply[2]
  local first = 2 * tonumber(skipped) + 1
  local last = math.min(#page, first + 2 * (limit - looked) - 1)
  for n = first, last, 2 do
    looked, bytes = looked + 1, bytes + #page[n + 1]
    if put_back(page[n], page[n + 1]) then
      back = back + 1
    end
  end
  if last < #page then
    skipped = last / 2
  else
    cursor, skipped, is_over = next_cursor, 0, next_cursor == '0'
  end
end
if back > 0 then
  redis.call('HINCRBY', counters, 'reindexed', back)
  wake_one()
end
if (is_over or back > 0 and back < looked) and count_orphans() == 0 then -- if all of these were missing, others are
  redis.call('DEL', reindexed)
else
  redis.call('SET', reindexed, is_over and 'done' or cursor .. ' ' .. skipped, 'PX', PAUSE)
end
return math.max(1, looked)
