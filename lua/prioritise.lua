-- Changes the priority of waiting messages: the one byte of a record that is not written for ever. Returns the ids.
local messages, states, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiring, history, dead, expired, leases = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local place, priority = ARGV[1], tonumber(ARGV[2]) -- place: ready or scheduled
-- items from ARGV[3]: id
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/id_of
-- @include lib/chosen
local index = place == 'ready' and ready or scheduled
local changed = {}
each_chosen(index, 3, 0, 0, function(id, state, head, member)
  local record = redis.call('HGET', messages, id)
  local flags = record:byte(8)
  if flags then -- else the record is damaged
    head.priority = priority
    stand(id, state, head, place == 'scheduled')
    redis.call('HSET', messages, id, record:sub(1, 7) .. string.char(flags - flags % EXPIRES + priority) .. record:sub(9))
    if member_of(id, head, state.due) ~= member then
      redis.call('ZREM', index, member)
    end
    changed[#changed + 1] = id
  end
end)
return changed
