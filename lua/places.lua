-- Where messages are: their rows in the indexes.
--
-- Death moves no body: dead and expired messages stay in `messages` and `states` of their queue, and only the row moves to
-- another index. So a message cannot be in a dead-letter queue twice, and a redrive is as cheap as a claim. `DLQ.orders` is
-- a name for that part of `orders`; a shared dead-letter queue is a name for that part of several queues.

-- The index of waiting messages with this name; nil: there is none.
function Places.index(q, name)
  return ({ ready = q.ready, scheduled = q.scheduled, dead = q.dead, expired = q.expired })[name]
end

-- The index of a message in this state, and its score there.
local function where(q, state, head, waits)
  if state.part ~= 'live' then
    return state.part == 'dead' and q.dead or q.expired, type(waits) == 'number' and waits or state.due
  elseif waits then
    return q.scheduled, type(waits) == 'number' and waits or state.due
  end
  return q.ready, Order.score_of(head.priority, state.due)
end

-- Brings the fields of a state up to date. Returns the redrive after which it died again (Redrive.bring_back); nil: none.
local function amend(q, id, state, rest)
  local died_again = state.part ~= 'live' and Redrive.of(state.more)
  if died_again then
    state.more = State.without(state.more, 'redrive')
  end
  if rest or state.more ~= '' and state.more:find(' rest=', 1, true) then
    state.more = State.with(state.more, 'rest', rest)
  end
  if state.part == 'dead' and not state.more:find(' group=', 1, true) then
    state.more = state.more .. ' group=' .. Groups.of(q, id, state)
  end
  return died_again
end

-- The only way a message gets a row in an index, except where many move together, as in Send.add and Upkeep.promote_due.
-- The new row is written first, then the state, which takes effect; the caller removes the old row last (Places.leave). So
-- a call that is cut off leaves at worst a row that the state contradicts, and the next call that reads it removes it (I9).
-- With a rule for keys, a message with a key is ready only with a seat. Returns the new row: its index and its member.
--   waits: until state.due, which alone cannot tell, since the clock may step back; a score: in its lane, where it is
--   blocked
--   rest: when the rest of a dead or expired message ends (Choose.rows); nil: it does not rest
--   arrive: writes a record, and a history, that the queue does not have yet; nil: it has them
function Places.put(q, id, state, head, waits, rest, arrive)
  local member = Order.member_of(id, head, state.due)
  local index, score = where(q, state, head, waits)
  local in_lane = head.lane and q.set.per_key
  if in_lane and index == q.ready then
    Seats.due_first(q, { id })
    local may, waits_at = Seats.enter(q, id, member, head.lane)
    if not may then
      index, score = q.scheduled, waits_at
    end
  end
  redis.call('ZADD', index, score, member)
  local expires = state.part == 'live' and State.expiry_of(head, state)
  if expires then
    redis.call('ZADD', q.expiring, expires, id)
  end
  state.mark = '-'
  local died_again = amend(q, id, state, rest)
  redis.call('HSET', q.states, id, State.format(state))
  if arrive then
    arrive()
  end
  if state.part == 'dead' then -- last, so that each row of `groups` belongs to a dead letter
    redis.call('ZADD', q.groups, 0, Groups.row_of(state, member))
  end
  if died_again then
    Redrive.count(q, died_again, 'died')
  end
  if head.needs and q.set.gated then
    Seats.end_passes(q, { id }) -- it has used its pass
  end
  if in_lane and not Seats.keeps_seat(q, state, waits or index == q.scheduled) then
    Seats.vacate(q, { id }) -- if cut off before this, only the next message is not admitted yet
  end
  return index, member
end

-- Removes the old row of a message that waited; the last step, since by that row a claim finds what a cut-off call left.
--   new_index, new_row: the row that it has now, which stays, as Places.put returns it; nil: it has none, or is buried
function Places.leave(q, id, index, row, new_index, new_row)
  if new_index ~= q.ready and new_index ~= q.scheduled then -- its time to live has ended
    redis.call('ZREM', q.expiring, id)
  end
  if new_index ~= index or new_row ~= row then
    redis.call('ZREM', index, row)
  end
end

-- The only way out of a queue: removes messages permanently, with all that was kept about them (I13). Returns how many. The
-- caller counts them, and removes their rows.
--   per_key, gated: the settings of keys and closed lanes; if they are set, seats and passes are given back
--   once_gone: called as soon as the records are gone; nil: not called
function Places.gone(q, ids, per_key, gated, once_gone)
  redis.call('HDEL', q.messages, unpack(ids)) -- from here on they are gone
  if once_gone then
    once_gone()
  end
  redis.call('HDEL', q.history, unpack(ids))
  redis.call('HDEL', q.states, unpack(ids)) -- last: by the state a sweep sees that a call was cut off
  if gated then
    Seats.end_passes(q, ids)
  end
  if per_key then -- after the states: Tend.tend finds the seat of a message that is gone
    Seats.vacate(q, ids)
  end
  return #ids
end

-- The same by the settings as they are.
function Places.drop(q, ids)
  return Places.gone(q, ids, q.set.per_key, q.set.gated)
end

-- Whether a row of an index was left behind by a call that was cut off: its message is leased, or has another row, where
-- its state says. The only row of a message always counts, so that no damage of a record or a state hides a message.
function Places.left_over(q, index, row, id, state, head)
  if state.mark == '+' and redis.call('ZSCORE', q.leases, state.token) then
    return true
  end
  local member = Order.member_of(id, head, state.due)
  local over = state.part == 'dead' and q.dead or state.part == 'expired' and q.expired
  for _, other in ipairs(over and { over } or { q.ready, q.scheduled }) do
    if (other ~= index or member ~= row) and redis.call('ZSCORE', other, member) then
      return true
    end
  end
  return false
end

-- Whether a message on the list of a lapsed claim is nowhere else: no lease that exists holds it, since another program
-- overwrote its state, and no index has it, in either form of its member (Order).
function Places.orphaned(q, id, state, head)
  if state.mark == '+' then
    return not redis.call('ZSCORE', q.leases, state.token)
  end
  local born = math.floor(head.birth / 4096)
  for _, due in ipairs({ state.due, born, born + 1 }) do
    local member = Order.member_of(id, head, due)
    for _, index in ipairs({ q.ready, q.scheduled, q.dead, q.expired }) do
      if redis.call('ZSCORE', index, member) then
        return false
      end
    end
  end
  return true
end

-- How many messages are in no index: those that are leased, and those that lost their row (Reindex).
function Places.count_outside(q)
  local count = redis.call('HLEN', q.messages)
  for _, index in ipairs({ q.ready, q.scheduled, q.dead, q.expired }) do
    count = count - redis.call('ZCARD', index)
  end
  return count
end

-- Puts the row of a message of a later form behind the others: a ready one waits for a while in `scheduled`, a dead or
-- expired one goes to the end of its index; a scheduled one stays, or it would be due at another time.
function Places.put_off(q, index, row)
  if index == q.ready then
    redis.call('ZADD', q.scheduled, q.now + Record.AGAIN, row)
    redis.call('ZREM', q.ready, row)
    redis.call('HINCRBY', q.counters, 'put_off', 1)
  elseif index ~= q.scheduled then
    redis.call('ZADD', index, q.now, row)
  end
end
