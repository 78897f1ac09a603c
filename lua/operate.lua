-- What operators do to chosen messages that wait. Each verb returns the reply of Choice.act. `act` is as in Audit.note_act;
-- `plan` is described in choice.lua.

-- Returns dead letters or expired messages to their queue: the same id, a fresh budget, the history kept.
function Verbs.redrive(q, ARGV)
  local number, part, by, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
  local score, member = ARGV[5], ARGV[6] -- the row after which the range begins
  local last_score, last_member = ARGV[7], ARGV[8] -- the last row of the range
  local act, plan = ARGV[9], ARGV[10]
  -- items from ARGV[11]: id; none: the first `limit` of the range
  local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
  local chosen = Choice.among(q, part, ARGV, 11, range)
  return Choice.act(q, { number = number, act = act, plan = plan }, chosen, function(id, state, head, row, _, at)
    Redrive.bring_back(q, id, state, head, at, row, { by = by, cause = '' })
  end, Queue.wake)
end

-- Removes waiting messages permanently. Leased messages stay.
-- drains
function Verbs.purge(q, ARGV)
  local number, place, limit = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, dead or expired
  local score, member = ARGV[4], ARGV[5] -- the row after which the range begins
  local last_score, last_member = ARGV[6], ARGV[7] -- the last row of the range
  local act, plan = ARGV[8], ARGV[9]
  -- items from ARGV[10]: id; none: the first `limit` of the range
  local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
  local chosen = Choice.among(q, place, ARGV, 10, range)
  return Choice.act(q, { number = number, act = act, plan = plan }, chosen, function(id, state, head, row, _, at)
    if place == 'dead' then
      Groups.ungroup(q, state, row)
    end
    Gathers.note_end(q, id, state.more, 'purged')
    Places.drop(q, { id })
    Places.leave(q, id, at, row)
    Outcomes.note(q, 'purged', id, head, state, 0)
  end, function(_, purged)
    redis.call('HINCRBY', q.counters, 'purged', purged)
  end)
end

-- Moves waiting messages to the dead-letter queue, for an operator.
function Verbs.dead_letter(q, ARGV)
  local number, place, by, reason, act, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  -- place: ready, scheduled or expired; reason: cells of a cause
  -- items from ARGV[7]: id
  local chosen = Choice.among(q, place, ARGV, 7)
  return Choice.act(q, { number = number, act = act, plan = plan }, chosen, function(id, state, head, row, _, at)
    History.remember_expiry(q, id, state)
    History.remember(q, id, 'dead_lettered', State.attempts(state), 0, by, reason)
    Judge.bury(q, id, state, head, 'dead', 'poison', { cause = 'dead_lettered', consumer = by, error = reason })
    Places.leave(q, id, at, row)
  end)
end

-- Moves or copies waiting messages to another queue of the same hash tag (Transfer.hand_over). Returns DELETED if that was
-- deleted.
function Verbs.transfer(q, ARGV, there)
  local number, place, keep, by, reason, opening = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
  local act, plan = ARGV[7], ARGV[8] -- keep: 1 to copy; reason: cells of a cause
  -- items from ARGV[9]: id
  local call = { number = number, act = act, plan = plan }
  if not Queue.is_open(there, opening) then
    return Choice.done_before(q, call) or Reply.DELETED
  end
  local chosen, how = Choice.among(q, place, ARGV, 9), { copies = keep == '1', asks = true, by = by, cause = reason }
  return Choice.act(q, call, chosen, function(id, state, head, row, _, at)
    return Transfer.hand_over(q, there, id, state, head, at, row, how)
  end, function()
    Queue.wake(there)
  end)
end

-- Expires waiting messages, whatever their time to live, for an operator.
function Verbs.expire_now(q, ARGV)
  local number, place, act, plan = ARGV[1], ARGV[2], ARGV[3], ARGV[4] -- place: ready or scheduled
  -- items from ARGV[5]: id
  local chosen = Choice.among(q, place, ARGV, 5)
  return Choice.act(q, { number = number, act = act, plan = plan }, chosen, function(id, state, head)
    Upkeep.expire_message(q, id, state, head)
  end)
end

-- Makes scheduled messages ready now, at the positions of their births (I8), but none that waits for a seat of its lane.
function Verbs.deliver_now(q, ARGV)
  local number, act, plan = ARGV[1], ARGV[2], ARGV[3]
  -- items from ARGV[4]: id
  local chosen = Choice.among(q, 'scheduled', ARGV, 4)
  return Choice.act(q, { number = number, act = act, plan = plan }, chosen, function(id, state, head, row, score, at)
    if at == q.ready or score >= Lanes.BLOCKED then
      return false
    end
    state.due = math.min(q.now, math.floor(head.birth / 4096))
    Places.leave(q, id, at, row, Places.put(q, id, state, head))
  end, Queue.wake)
end

-- Changes the priority of waiting messages.
function Verbs.prioritize(q, ARGV)
  local number, place, priority, act, plan = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
  -- place: ready or scheduled
  -- items from ARGV[6]: id
  local chosen = Choice.among(q, place, ARGV, 6)
  return Choice.act(q, { number = number, act = act, plan = plan }, chosen, function(id, state, head, row, score, at)
    local record = redis.call('HGET', q.messages, id)
    if #record < 8 or plan ~= '' and head.priority == priority then -- it is damaged, or counted in its plan already
      return false
    end
    record = Record.with_priority(record, priority)
    head.priority, state.more = priority, Record.with_head(state.more, record)
    local waits = at == q.scheduled and (score < Lanes.BLOCKED or score)
    Places.leave(q, id, at, row, Places.put(q, id, state, head, waits, nil, function()
      redis.call('HSET', q.messages, id, record)
    end))
  end)
end
