-- Moves a waiting message to another queue of the same hash tag, or copies it: the same id, the history continued. An id
-- that the other queue already has is left as it is in both; it then returns false. If the script is cut off, the message
-- may be in both queues; a repetition completes the move.
--   index: where it waits, and `member` its row there; by: the operator; cause: cells of a cause
--   how.copies: copy it; how.expires: when it expires if it was dead; nil: never; how.record: as in lib/bring_back
-- needs: now, expiry_of, with_expiry, with_expiry_word, with_head, new_state, ungroup, drop, leave, outcome, attempts
-- needs: with_priority, taken_up
-- needs: keys: messages, history, scheduled, dead, expired, counters, to_messages, to_history, to_counters
-- gives: hand_over, wake_there, is_there
local function there()
  -- needs: put, remember, remember_expiry, wake_one, is_open; family: to_
  return put, remember, remember_expiry, wake_one, is_open
end
local put_there, remember_there, remember_expiry_there, wake_there, is_there = there()

local function hand_over(id, state, head, index, member, by, cause, how)
  local record = with_priority(how.record or redis.call('HGET', messages, id), head.priority)
  local story = redis.call('HGET', history, id)
  local known = redis.call('HGET', to_messages, id)
  local account = story or state.reason == 'expired' and 'expired' or 'moved'
  local began = account:match('^[^\n\t]*\t?[^\n\t]*') -- its first event, and when
  local same = known == record and (redis.call('HGET', to_history, id) or ''):sub(1, #began) == began
  if known and (how.copies or not same) then return false end -- otherwise a move was cut off before it removed it here
  local was = { reason = state.reason, deliveries = state.deliveries, due = state.due, more = state.more }
  taken_up(state) -- the other queue has other consumers
  if index == dead or index == expired then -- like a redrive
    state.part, state.reason, state.due = 'live', '', now
    state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
    state.more = with_expiry_word(state.more:gsub(' struck=%S*', ''), how.expires)
  end
  if how.copies and head.expires ~= expiry_of(head, state) then -- a copy has the time to live in force
    head.expires = expiry_of(head, state)
    record = with_expiry(record, head.expires)
  end
  if not known then
    local state_there = how.copies and new_state(state.due) or state
    state_there.more = with_head((state_there.more:gsub(' group=%S*', ''):gsub(' returned=%S*', '')), record)
    put_there(id, state_there, head, index == scheduled)
    redis.call('HDEL', to_history, id) -- left by a transfer that was cut off
    if story and not how.copies then
      redis.call('HSET', to_history, id, story)
    end
    if how.copies then
      remember_there(id, 'copied', 0, 0, by, cause)
    else
      remember_expiry_there(id, was)
      remember_there(id, 'moved', attempts(was), 0, by, cause)
    end
  end
  if index == dead and not how.copies then ungroup(was, member) end
  if not known then
    redis.call('HINCRBY', to_counters, 'sent', 1)
    redis.call('HSET', to_messages, id, record) -- from here on it is in the other queue
  end
  if not how.copies then
    redis.call('HINCRBY', counters, 'moved', drop({ id }))
    leave(id, index, member)
    outcome('moved', id, head, was, 0, { consumer = by })
  end
end
