-- Moves or copies waiting messages to another queue of the same hash tag: the same id and record, the story carried
-- on. An id that the other queue knows is left as it is in both. If the script is cut off, a message may be in both
-- queues; the same move again completes it. Returns how many: none where the other queue was deleted since the client
-- looked for it.
local number, place, keep, by, reason, opening = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- keep: 1 to copy; reason: cells of a cause
-- items from ARGV[7]: id
-- needs: done
if done then
  return done
end
-- needs: note_done, each_chosen, now, expiry_of, EXPIRES, with_head, new_state, ungroup, remove, outcome
-- needs: keys: messages, history, ready, scheduled, dead, expired, counters, to_messages, to_history, to_counters
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
local copies = keep == '1'
local function there()
  -- needs: put, remember, remember_expiry, wake_one, is_open; family: to_
  return put, remember, remember_expiry, wake_one, is_open
end
local put_there, remember_there, remember_expiry_there, wake_there, is_there = there()
if not is_there then
  return 0
end
local moved = each_chosen(index, 7, function(id, state, head, member)
  local record, story = redis.call('HGET', messages, id), redis.call('HGET', history, id)
  local known = redis.call('HGET', to_messages, id)
  local account = story or state.reason == 'expired' and 'expired' or 'moved'
  local began = account:match('^[^\n\t]*\t?[^\n\t]*') -- its first event, and when
  local same = known == record and (redis.call('HGET', to_history, id) or ''):sub(1, #began) == began
  if known and (copies or not same) then return false end -- else an earlier move was cut off before it removed it here
  local was = { reason = state.reason, deliveries = state.deliveries, due = state.due, more = state.more }
  if place == 'dead' or place == 'expired' then -- as a redrive
    state.part, state.reason, state.due = 'live', '', now
    state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
    state.more = state.more:gsub(' group=%S*', '')
  end
  if copies and head.expires and not expiry_of(head, state) then -- its death ended the time to live
    record = record:sub(1, 7) .. string.char(record:byte(8) - EXPIRES) .. record:sub(15)
    head.expires = nil
  end
  if not known then
    local state_there = copies and new_state(state.due) or state
    state_there.more = with_head(state_there.more, record)
    put_there(id, state_there, head, place == 'scheduled')
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
    if place == 'dead' then
      ungroup(was, member)
    end
    remove(id, index, member)
    redis.call('HINCRBY', counters, 'moved', 1)
    outcome('moved', id, head, was, 0, { consumer = by })
  end
  redis.call('HINCRBY', to_counters, 'sent', 1)
end)
if moved > 0 then
  wake_there()
end
return note_done(moved)
