-- The messages that a verb of an operator is about, what such verbs have in common, and plans.
--
-- A plan says which messages an act changes: those that were there when it was made, and have stayed. A message that was
-- redriven or moved since, or died since, is another one for the operator, even if it has the same id.
--   plan: AT BIRTH RETURNED MOST; of its last call also LATER LEASED (note_plan). Empty: no plan
--   AT: when it was made, milliseconds; BIRTH: the last that the queue had given then; RETURNED: as in
--   Redrive.returned_since; MOST: how many messages it may change; the register has how many it has changed
local ARRIVES = { redriven = true, moved = true, copied = true } -- by such an event a message with an old birth comes

-- The messages that an operation is about: those in a place that ARGV names from `first` on or, if it names none, those of
-- a range (Order.rows_of_range). One that was admitted since it was chosen is found, too.
function Choice.among(q, place, ARGV, first, range)
  local chosen = range or { ids = {} }
  for n = first, #ARGV do
    chosen.ids = chosen.ids or {}
    chosen.ids[n - first + 1] = ARGV[n]
  end
  chosen.index, chosen.otherwise = Places.index(q, place), place == 'scheduled' and q.ready or nil
  return chosen
end

-- The ids, and the rows, of those that are chosen; and, if a range continues, the score and the member of its last row.
local function read(index, chosen)
  if chosen.ids then
    return chosen.ids, {}, '', ''
  end
  local rows, next_score, next_member = Order.rows_of_range(index, chosen)
  local ids = {}
  for n, row in ipairs(rows) do
    ids[n] = Order.id_of(row)
  end
  return ids, rows, next_score, next_member
end

-- The index in which a message waits: with a rule for keys, it may have been admitted to `otherwise` since it was chosen.
local function where(q, index, otherwise, member)
  local may_move = otherwise and q.set.per_key and not redis.call('ZSCORE', index, member)
  return may_move and redis.call('ZSCORE', otherwise, member) and otherwise or index
end

-- Visits a message, if it waits where it was chosen. Returns whether it was changed; or nil and its state: it does not
-- wait.
local function visited(q, index, chosen, visit, id, row, seen)
  local state, head, later = State.read(q, id)
  if later then
    return false
  end
  local member = row or state and Order.member_of(id, head, state.due)
  local at = state and where(q, index, chosen.otherwise, member) or index
  local waits = state and not Places.left_over(q, at, member, id, state, head)
  local score = waits and not seen[id] and redis.call('ZSCORE', at, member)
  if score then
    seen[id] = true
    return visit(id, state, head, member, tonumber(score), at) ~= false
  elseif row then -- left behind by a call that was cut off
    if not head then
      Places.drop(q, { id })
    end
    redis.call('ZREM', index, member)
    return false
  end
  return nil, state
end

-- Calls visit(id, state, head, row, score, index) for each message that is chosen, waits there, and is of no later form.
-- Returns for how many `visit` did not return false; the score and the member of the last row that it checked, both empty:
-- the range does not continue; and how many of the ids are being processed, of `chosen.part` if it is given.
--   chosen: ids; or a range (Choice.among); chosen.otherwise: where one that was admitted waits; nil: it is skipped
function Choice.each(q, index, chosen, visit)
  local seen, count, leased = {}, 0, 0
  local ids, rows, next_score, next_member = read(index, chosen)
  for n, id in ipairs(ids) do
    local changed, state = visited(q, index, chosen, visit, id, rows[n], seen)
    if changed then
      count = count + 1
    elseif state and state.mark == '+' and (not chosen.part or chosen.part == state.part) then
      leased = leased + 1
    end
  end
  return count, next_score, next_member, leased
end

-- How many messages the calls of a plan before this one changed.
local function changed_before(noted)
  return tonumber(noted and noted:match('%d*$')) or 0
end

-- Whether a message is one of a plan.
--   made: the plan's AT, BIRTH and RETURNED
local function is_planned(q, made, id, state, head)
  if state.part ~= 'live' then
    return state.due <= made.at and not Redrive.returned_since(made, state)
  end
  local came
  for event, at in ('\n' .. (redis.call('HGET', q.history, id) or '')):gmatch('\n(%a+)\t(%d+)') do
    came = ARRIVES[event] and tonumber(at) or came
  end
  if came then
    return came <= made.at
  end
  return head.birth <= made.birth
end

-- Restricts a visit (Choice.each) to the messages of a plan, and to as many as the plan said.
local function by_plan(q, plan, noted, visit)
  local at, birth, returned, most = plan:match('^(%d+) (%d+) (%d+) (%d+)')
  if not at then
    return visit
  end
  local made = { at = tonumber(at), birth = tonumber(birth), returned = tonumber(returned) }
  local left = tonumber(most) - changed_before(noted)
  return function(id, state, head, ...)
    if left <= 0 or not is_planned(q, made, id, state, head) or visit(id, state, head, ...) == false then
      return false
    end
    left = left - 1
  end
end

-- The end of a call of a plan: records the act, and in the register of the plan how many messages it has changed so far.
-- After its last call the plan is done: every further call of any client gets that reply (I12). Returns the reply.
local function note_plan(q, call, noted, reply)
  local total = reply[1] + changed_before(noted)
  local later, leased = call.plan:match('^%d+ %d+ %d+ %d+ (%d+) (%d+)$')
  Audit.note_act(q, call.act, reply[1])
  if later then
    Register.note_done(q, call.number, total, table.concat({ later, '', leased, '' }, ' '))
    return { total, later, '', tonumber(leased) }
  elseif reply[1] > 0 then
    Register.note_done(q, 0, total) -- below the number of its calls: it is not done
  end
  return reply
end

-- The reply of a call that was done before, from its note (Choice.act); nil: it was not.
function Choice.done_before(q, call)
  local done, noted = Register.done_before(q, call.number)
  if not done then
    return nil, noted
  end
  local score, member, leased = noted:match('^%d+ (%S*) (.*) (%d+) %d*$')
  return { done, score or '', member or '', tonumber(leased) or 0 } -- of a later call, if this one is late: not read
end

-- Does what a verb does to the chosen messages, or to those of them that its plan allows; then records the act and that the
-- call is done, if it changed anything; otherwise a full Redis 6.2 would refuse a purge of nothing. Returns what
-- Choice.each returns; the last call of a plan: how many messages all calls changed, LATER, and LEASED.
--   call: its number; act: as in Audit.note_act; plan
--   finish(q, count): called if any message was changed; nil: nothing is called
function Choice.act(q, call, chosen, visit, finish)
  local before, noted = Choice.done_before(q, call)
  if before then
    return before
  end
  local reply = { Choice.each(q, chosen.index, chosen, by_plan(q, call.plan, noted, visit)) }
  local count = reply[1]
  if finish and count > 0 then
    finish(q, count)
  end
  if call.plan ~= '' then
    return note_plan(q, call, noted, reply)
  elseif count > 0 then
    Audit.note_act(q, call.act, count)
    Register.note_done(q, call.number, count, table.concat({ reply[2], reply[3], reply[4], '' }, ' '))
  end
  return reply
end
