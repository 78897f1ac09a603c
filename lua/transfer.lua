-- Moves (or copies) waiting messages to another queue of the same hash tag: the same id and record, their story told
-- on. What it knows already stays where it is. Cut off, a message is in both; the same move again ends it. Returns ids.
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local expiring, dead, expired, counters, settings, outcomes = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local to_messages, to_states, to_history, to_ready = KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local to_scheduled, to_expiring, to_counters, to_wake, leases = KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local place, keep, by, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4] -- keep: 1 to copy; reason: cells of a cause
-- items from ARGV[5]: id
-- @include lib/now
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/id_of
-- @include lib/chosen
-- @include lib/remove
-- @include lib/outcome
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
local copies, moved = keep == '1', {}
local function there()
  local states, history, ready = to_states, to_history, to_ready
  local scheduled, expiring, dead, expired, wake = to_scheduled, to_expiring, nil, nil, to_wake
  -- @include lib/stand
  -- @include lib/history
  -- @include lib/remember_expiry
  -- @include lib/wake
  return stand, remember, remember_expiry, wake_one
end
local stand_there, remember_there, remember_expiry_there, wake_there = there()
each_chosen(index, 5, 0, 0, function(id, state, head, member)
  local record, story = redis.call('HGET', messages, id), redis.call('HGET', history, id)
  local known = redis.call('HGET', to_messages, id)
  local told = story or state.reason == 'expired' and 'expired' or 'moved'
  local began = told:match('^[^\n\t]*\t?[^\n\t]*') -- its first event, and when
  local same = known == record and (redis.call('HGET', to_history, id) or ''):sub(1, #began) == began
  if known and (copies or not same) then return end -- else it was moved there, and cut off before it left
  local was = { reason = state.reason, deliveries = state.deliveries, due = state.due }
  if place == 'dead' or place == 'expired' then -- as a redrive
    state.part, state.reason, state.due = 'live', '', now
    state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
  end
  if copies and head.expires and not expiry_of(head, state) then -- its death ended its time to live
    record = record:sub(1, 7) .. string.char(record:byte(8) - EXPIRES) .. record:sub(15)
    head.expires = nil
  end
  if not known then
    stand_there(id, copies and new_state(state.due) or state, head, place == 'scheduled')
    redis.call('HDEL', to_history, id) -- of a transfer that was cut off
    if story and not copies then
      redis.call('HSET', to_history, id, story)
    end
    if copies then
      remember_there(id, 'copied', 0, 0, by, reason)
    else
      remember_expiry_there(id, was)
      remember_there(id, 'moved', was.deliveries, 0, by, reason)
    end
    redis.call('HSET', to_messages, id, record) -- from here on it is there
  end
  if not copies then
    remove(id, index, member)
    redis.call('HINCRBY', counters, 'moved', 1)
    outcome('moved', id, head, was, 0, { consumer = by })
  end
  redis.call('HINCRBY', to_counters, 'sent', 1)
  moved[#moved + 1] = id
end)
if #moved > 0 then
  wake_there()
end
return moved
