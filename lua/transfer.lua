-- A waiting message moves to another queue of the same hash tag, `there`, or is copied.

-- A dead letter, or an expired message, is returned, as by a redrive; a copy has the time to live that is in force. Returns
-- the record.
local function prepare(q, state, head, record, is_over, how)
  State.taken_up(state) -- the other queue has other consumers
  if is_over then
    state.part, state.reason, state.due = 'live', '', q.now
    state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
    state.more = State.with(State.without(state.more, 'struck'), 'expires', how.expires)
  end
  if how.copies and head.expires ~= State.expiry_of(head, state) then
    head.expires = State.expiry_of(head, state)
    return Record.with_expiry(record, head.expires)
  end
  return record
end

-- Writes all of a message but its record in the other queue.
local function arrive(there, id, state, head, record, waits, story, was, how)
  state.more = Record.with_head(Gathers.left(State.without(state.more, 'group', 'returned')), record)
  Places.put(there, id, state, head, waits)
  redis.call('HDEL', there.history, id) -- left by a transfer that was cut off
  if how.copies then
    History.remember(there, id, 'copied', 0, 0, how.by, how.cause)
    return
  end
  if story then
    redis.call('HSET', there.history, id, story)
  end
  History.remember_expiry(there, id, was)
  History.remember(there, id, 'moved', State.attempts(was), 0, how.by, how.cause)
end

-- Whether the message that the other queue has is this one: a move was cut off before it removed it here.
local function is_same(there, id, known, record, story, state)
  local account = story or state.reason == 'expired' and 'expired' or 'moved'
  local began = account:match('^[^\n\t]*\t?[^\n\t]*') -- its first event, and when
  return known == record and (redis.call('HGET', there.history, id) or ''):sub(1, #began) == began
end

-- Moves a message, or copies it: the same id, the history continued. Returns false and leaves it as it is if the other
-- queue has the id, or has no room. If the call is cut off, the message may be in both queues; a repetition completes the
-- move.
--   index: where it waits, and `member` its row there; how.by, how.cause, how.record: as in Redrive.bring_back;
--   how.expires: when it expires if it was dead, nil: never; how.copies: copy it; how.asks: whether there is room
function Transfer.hand_over(q, there, id, state, head, index, member, how)
  local record = Record.with_priority(how.record or redis.call('HGET', q.messages, id), head.priority)
  local story = redis.call('HGET', q.history, id)
  local known, set = redis.call('HGET', there.messages, id), q.set -- read now, so that no read separates the changes
  if known and (how.copies or not is_same(there, id, known, record, story, state)) then
    return false
  end
  local limit = not known and how.asks and redis.call('HGET', there.settings, 'max_length')
  if limit and (Length.room(there, limit) or 1) < 1 then
    return false
  end
  local was = { reason = state.reason, deliveries = state.deliveries, due = state.due, more = state.more }
  record = prepare(q, state, head, record, index == q.dead or index == q.expired, how)
  if not known then
    local state_there = how.copies and State.new(state.due) or state
    arrive(there, id, state_there, head, record, index == q.scheduled, story, was, how)
  end
  if index == q.dead and not how.copies then
    Groups.ungroup(q, was, member)
  end
  if not known then
    redis.call('HINCRBY', there.counters, 'sent', 1)
    redis.call('HSET', there.messages, id, record) -- from here on it is in the other queue
  end
  if not how.copies then
    Gathers.note_end(q, id, was.more, 'moved')
    redis.call('HINCRBY', q.counters, 'moved', Places.gone(q, { id }, set.per_key, set.gated))
    Places.leave(q, id, index, member)
    Outcomes.note(q, 'moved', id, head, was, 0, { consumer = how.by })
  end
  return true
end
