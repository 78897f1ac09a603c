-- What operators do to chosen messages that wait. Each verb ends as Choice.changed says; `act` is as in Audit.note_act,
-- `plan` as in Plans.visit.

-- The messages among `place` that a call names; one that was let in meanwhile is found, too.
local function among(q, ARGV, first, place, range)
  local chosen = Choice.of(ARGV, first, range)
  chosen.otherwise = place == 'scheduled' and q.ready or nil
  return chosen
end

-- Returns dead letters or expired messages to their queue: the same id, a fresh budget, the history kept. Each message
-- moves in one step, so none is lost or duplicated. Returns the reply of Choice.changed.
function Verbs.redrive(q, ARGV)
  local number, part, by, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
  local score, member = ARGV[5], ARGV[6] -- the row after which the range begins
  local last_score, last_member = ARGV[7], ARGV[8] -- the last row of the range
  local act, plan = ARGV[9], ARGV[10]
  -- items from ARGV[11]: id; none: the first `limit` of the range
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  end
  local source = part == 'dead' and q.dead or q.expired
  local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
  local chosen = Choice.of(ARGV, 11, range)
  local visit = Plans.visit(q, call, function(id, state, head, row)
    Redrive.bring_back(q, id, state, head, source, row, by, '')
  end)
  local redriven, next_score, next_member, leased = Choice.each(q, source, chosen, visit)
  if redriven > 0 then
    Queue.wake(q)
  end
  return Choice.changed(q, call, redriven, next_score, next_member, leased)
end

-- Removes waiting messages permanently. Leased messages stay. Returns the reply of Choice.changed.
-- drains
function Verbs.purge(q, ARGV)
  local number, place, limit = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, dead or expired
  local score, member = ARGV[4], ARGV[5] -- the row after which the range begins
  local last_score, last_member = ARGV[6], ARGV[7] -- the last row of the range
  local act, plan = ARGV[8], ARGV[9]
  -- items from ARGV[10]: id; none: the first `limit` of the range
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  end
  local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
  local index, chosen = Places.index(q, place), among(q, ARGV, 10, place, range)
  local visit = Plans.visit(q, call, function(id, state, head, row, _, at)
    if place == 'dead' then
      Groups.ungroup(q, state, row)
    end
    Places.drop(q, { id })
    Places.leave(q, id, at, row)
    Outcomes.note(q, 'purged', id, head, state, 0)
  end)
  local purged, next_score, next_member, leased = Choice.each(q, index, chosen, visit)
  if purged > 0 then
    redis.call('HINCRBY', q.counters, 'purged', purged)
  end
  return Choice.changed(q, call, purged, next_score, next_member, leased)
end

-- Moves waiting messages to the dead-letter queue, for an operator. Returns the reply of Choice.changed.
function Verbs.dead_letter(q, ARGV)
  local number, place, by, reason, act, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  -- place: ready, scheduled or expired; reason: cells of a cause
  -- items from ARGV[7]: id
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  end
  local index, chosen = Places.index(q, place), among(q, ARGV, 7, place)
  local visit = Plans.visit(q, call, function(id, state, head, member, _, at)
    History.remember_expiry(q, id, state)
    History.remember(q, id, 'dead_lettered', State.attempts(state), 0, by, reason)
    Judge.bury(q, id, state, head, 'dead', 'poison', { cause = 'dead_lettered', consumer = by, error = reason })
    Places.leave(q, id, at, member)
  end)
  return Choice.changed(q, call, Choice.each(q, index, chosen, visit))
end

-- Moves or copies waiting messages to another queue of the same hash tag (Transfer.hand_over). Returns the reply of
-- Choice.changed; it changes nothing if the other queue was deleted since the client opened it.
function Verbs.transfer(q, ARGV, there)
  local number, place, keep, by, reason, opening = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local act, plan = ARGV[7], ARGV[8] -- keep: 1 to copy; reason: cells of a cause
  -- items from ARGV[9]: id
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  elseif not Queue.is_open(there, opening) then
    return { 0, '', '', 0 }
  end
  local index, chosen, how = Places.index(q, place), among(q, ARGV, 9, place), { copies = keep == '1' }
  local visit = Plans.visit(q, call, function(id, state, head, member, _, at)
    return Transfer.hand_over(q, there, id, state, head, at, member, by, reason, how)
  end)
  local moved, next_score, next_member, leased = Choice.each(q, index, chosen, visit)
  if moved > 0 then
    Queue.wake(there)
  end
  return Choice.changed(q, call, moved, next_score, next_member, leased)
end

-- Expires waiting messages, whatever their time to live, for an operator. Returns the reply of Choice.changed.
function Verbs.expire_now(q, ARGV)
  local number, place, act, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[4] -- place: ready or scheduled
  -- items from ARGV[5]: id
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  end
  local index, chosen = Places.index(q, place), among(q, ARGV, 5, place)
  local visit = Plans.visit(q, call, function(id, state, head)
    Upkeep.expire_message(q, id, state, head)
  end)
  return Choice.changed(q, call, Choice.each(q, index, chosen, visit))
end

-- Makes scheduled messages ready now, at the positions of their births, so ahead of messages that were sent later (I8). A
-- message that waits for a seat of its lane is left as it is. Returns the reply of Choice.changed.
function Verbs.deliver_now(q, ARGV)
  local number, act, plan = ARGV[1], ARGV[2], ARGV[3]
  -- items from ARGV[4]: id
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  end
  local index, chosen = q.scheduled, Choice.of(ARGV, 4)
  local visit = Plans.visit(q, call, function(id, state, head, row, score)
    if score >= Lanes.BLOCKED then
      return false
    end
    state.due = math.min(q.now, math.floor(head.birth / 4096))
    Places.leave(q, id, index, row, Places.put(q, id, state, head))
  end)
  local delivered, next_score, next_member, leased = Choice.each(q, index, chosen, visit)
  if delivered > 0 then
    Queue.wake(q)
  end
  return Choice.changed(q, call, delivered, next_score, next_member, leased)
end

-- Changes the priority of waiting messages. Returns the reply of Choice.changed.
function Verbs.prioritize(q, ARGV)
  local number, place, priority, act, plan = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
  -- place: ready or scheduled
  -- items from ARGV[6]: id
  local call = Choice.begin(q, number, act, plan)
  if call.done then
    return Choice.changed_before(call)
  end
  local index, chosen = Places.index(q, place), among(q, ARGV, 6, place)
  local visit = Plans.visit(q, call, function(id, state, head, member, score, at)
    local record = redis.call('HGET', q.messages, id)
    if #record < 8 or plan ~= '' and head.priority == priority then -- it is damaged, or counted in its plan already
      return false
    end
    record = Record.with_priority(record, priority)
    head.priority, state.more = priority, Record.with_head(state.more, record)
    local waits = at == q.scheduled and (score < Lanes.BLOCKED or score)
    Places.leave(q, id, at, member, Places.put(q, id, state, head, waits, nil, function()
      redis.call('HSET', q.messages, id, record)
    end))
  end)
  return Choice.changed(q, call, Choice.each(q, index, chosen, visit))
end
