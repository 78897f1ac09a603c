-- The messages that an operation on a waiting part of the queue is about: the ids from ARGV[first] on or, if there are
-- none, those of a range.
--   range: limit, score, member, last_score, last_member, as Order.rows_of_range takes them; nil: no range
function Choice.of(ARGV, first, range)
  local chosen = range or { ids = {} }
  for n = first, #ARGV do
    chosen.ids = chosen.ids or {}
    chosen.ids[n - first + 1] = ARGV[n]
  end
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

-- The index in which a message waits: with a rule for keys, it may wait in `otherwise` that was in `index` when it was
-- chosen, since another one let it in.
local function where(q, index, otherwise, member)
  local may_move = otherwise and q.set.per_key and not redis.call('ZSCORE', index, member)
  return may_move and redis.call('ZSCORE', otherwise, member) and otherwise or index
end

-- Visits a message, if it waits where it was chosen. Returns whether it was changed; or nil and its state: it does not
-- wait.
local function visited(q, index, chosen, visit, id, row, seen)
  local text = redis.call('HGET', q.states, id)
  local head, later = Record.head_of(q, id, text)
  if later then
    return false
  end
  local state = head and State.parse(text, head.birth)
  local member = row or state and Order.member_of(id, head, state.due)
  local at = state and where(q, index, chosen.otherwise, member) or index
  local waits = state and not Places.left_over(q, at, member, id, state, head)
  local score = waits and not seen[id] and redis.call('ZSCORE', at, member)
  if score then
    seen[id] = true
    return visit(id, state, head, member, tonumber(score), at) ~= false
  elseif row then -- left behind by a script that was cut off
    if not head then
      Places.drop(q, { id })
    end
    redis.call('ZREM', index, member)
    return false
  end
  return nil, state
end

-- Calls visit(id, state, head, row, score, index) for each message that is chosen. Skips messages that do not wait there,
-- and those of a later form, which stay as they are. Returns for how many `visit` did not return false; the score and the
-- member of the last row that it checked, if the range continues after it, otherwise empty; and how many of the ids are
-- being processed, of `chosen.part` if it is given.
--   chosen: ids; or a range (Choice.of); chosen.otherwise: the index where one that was let in waits; nil: it is skipped
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

-- The call of a verb on chosen messages: its number, what was noted before, and whether it was done before.
function Choice.begin(q, number, act, plan)
  local done, noted = Register.done_before(q, number)
  return { number = number, act = act, plan = plan, done = done, noted = noted }
end

-- The end of a call: records the act and that the call is done, if it changed anything; otherwise a full Redis 6.2 would
-- refuse a purge of nothing. Returns how many messages it changed, the score and the member of the row after which the
-- range continues (empty: it is complete), and how many messages it left since they are being processed. The last call of a
-- plan returns the end of the plan.
function Choice.changed(q, call, count, score, member, leased)
  if call.plan ~= '' then
    local total, later, left = Plans.note(q, call, count)
    if later ~= '' then
      return { total, later, '', left }
    end
  elseif count > 0 then
    Audit.note_act(q, call.act, count)
    Register.note_done(q, call.number, count, table.concat({ score, member, leased, '' }, ' '))
  end
  return { count, score, member, leased }
end

-- The reply of a call that was done before, from its note (Choice.changed).
function Choice.changed_before(call)
  local score, member, leased = call.noted:match('^%d+ (%S*) (.*) (%d+) %d*$')
  return { call.done, score or '', member or '', tonumber(leased) or 0 } -- of a later call, if this one is late: not read
end
