-- What becomes due without a caller: lapsed leases, scheduled messages, times to live, and the end of retention.
local STAYS = -1

-- Judges a message that lapsed, or forgives it (judge.lua).
local function lapse(q, id, state, head, token, consumer, kind)
  local failure = { charge = true, consumer = consumer, error = q.lapse_error, of_batch = kind == 'batch' }
  if failure.of_batch or kind == 'worker' and state.lapsed == 0 then
    failure.charge, failure.delay, failure.forgiven = false, 0, true
  end
  if head.needs and q.set.gated and Lanes.is_closed(q, head.needs) then
    Breaker.spare(q, id, head.needs, failure)
  end
  local lane = failure.forgiven and Rates.slot_back(q, state, head, token)
  Judge.judge(q, id, state, head, 'lapsed', failure)
  if lane then
    Seats.admit(q, { lane })
  end
end

-- Sweeps a message of a lapsed claim, if the claim still held it (I15). Returns how many messages the claim no longer holds
-- (1 or 0); nil if it is left alone, since only a later version can judge it.
local function sweep_message(q, id, token, consumer, kind)
  local text = redis.call('HGET', q.states, id)
  local held = State.holds(token, text)
  local fewer = held and 1 or 0
  if not held and Cancel.finish_call(q, id, token) then
    return 1
  end
  local head, later = (held and Record.held_head or Record.head_of)(q, id, text)
  if later then
    return not held and 0 or nil
  elseif not head then
    return fewer
  end
  local state = State.parse(text, head.birth)
  if not held and not Places.orphaned(q, id, state, head) then
    return 0
  elseif not Judge.can_judge(q) then
    return nil
  end
  state.token = '' -- its holder did not settle it, so a repeated call must not be told that it did
  Again.take_up(q, id, state, head)
  lapse(q, id, state, head, token, consumer, kind)
  return fewer
end

-- Sweeps a lapsed claim. One larger than the limit takes several calls: a swept message leaves its line of the list empty,
-- and the lease stays until the last call. Messages that only a later version can judge stay on the list: the claim then
-- records the line where the next sweep continues, and at the end of the list its lease is extended. Returns how many
-- messages were swept and how many were left alone, at most `most` and `most_left`.
local function sweep_claim(q, token, most, most_left)
  local maker, list = (redis.call('HGET', q.claims, token) or ''):match('^([^\n]*)\n?(.*)$')
  local consumer, kind, noted, more = maker:match('^([^\t]*)\t?([^\t]*)\t?(%d*)(.*)$')
  local from, line, stopped = tonumber(noted) or 0, -1, false
  local looked, left, swept, gone = 0, 0, 0, {}
  for id in (list .. '\n'):gmatch('([^\n]*)\n') do
    line = line + 1
    if id ~= '' and line >= from then
      stopped = looked == most or left == most_left
      if stopped then
        break
      end
      local count = sweep_message(q, id, token, consumer, kind)
      if count then
        looked, swept, gone[id] = looked + 1, swept + count, ''
      else
        left = left + 1
      end
    end
  end
  local kept = from > 0 or left > 0
  if not stopped and not kept then
    Leases.remove(q, token)
    return looked, left
  end
  local on = stopped and kept and line or 0
  if on ~= from then
    maker = table.concat({ consumer, kind, on .. more }, '\t')
  end
  local emptied = list:gsub('[^\n]+', gone)
  redis.call('HSET', q.claims, token, maker .. '\n' .. emptied)
  if not stopped then
    redis.call('ZADD', q.leases, q.now + Record.AGAIN, token)
  end
  if swept > 0 then -- -0 becomes "-0", which Redis does not take as a number
    Leases.take_off(q, { [token] = swept })
  end
  return looked, left
end

-- Sweeps lapsed claims, at most `limit` messages. Returns how many it swept.
function Upkeep.sweep_lapsed(q, limit)
  local looked, left = 0, 0
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', q.leases, '-inf', q.now, 'LIMIT', 0, limit)) do
    if looked == limit or left == limit then
      break
    end
    local more, more_left = sweep_claim(q, token, limit - looked, limit - left)
    looked, left = looked + more, left + more_left
  end
  return looked
end

-- The score at which a due message with a key still waits; false: it may be ready; STAYS: its row is left as it is.
local function blocked_at(q, row, leaves, full)
  local id = Order.id_of(row)
  if leaves[id] then
    return STAYS
  end
  local lane, is_own = Lanes.waiting_lane(q, id, row, redis.call('HGET', q.states, id))
  if not is_own then
    return false
  end
  local may, waits_at = Seats.enter(q, id, row, lane, full)
  return not may and waits_at
end

-- Moves due messages from `scheduled` to `ready`; their states stay the same. With a rule for keys, one with a key needs a
-- seat of its lane; otherwise it is blocked there. Returns how many rows it moved.
--   limit: of rows; nil: the call gives seats, and moves at most 100; more are due only if nothing claims (Verbs.claim)
--   leaving: the ids whose seats the call gives back, and whose rows it is about to remove: these stay; nil: none
function Upkeep.promote_due(q, limit, leaving)
  limit = limit or Bounds.LANES - (q.moved or 0)
  if limit <= 0 then
    return 0
  end
  local rows = redis.call('ZRANGEBYSCORE', q.scheduled, '-inf', q.now, 'WITHSCORES', 'LIMIT', 0, limit)
  q.moved = (q.moved or 0) + #rows / 2
  local moved, members, blocked, full, leaves = {}, {}, {}, {}, {}
  local per_key = #rows > 0 and q.set.per_key
  for n = 1, per_key and leaving and #leaving or 0 do
    leaves[leaving[n]] = true
  end
  for i = 1, #rows, 2 do
    local first, waits_at = rows[i]:byte(1), per_key and blocked_at(q, rows[i], leaves, full)
    if waits_at and waits_at ~= STAYS then
      blocked[#blocked + 1], blocked[#blocked + 2] = waits_at, rows[i]
    elseif not waits_at then
      members[#members + 1] = rows[i]
      local priority = first < 10 and 9 - first or 4 -- or it was put off (Places.put_off)
      moved[#moved + 1], moved[#moved + 2] = Order.score_of(priority, tonumber(rows[i + 1])), rows[i]
    end
  end
  if #blocked > 0 then
    redis.call('ZADD', q.scheduled, unpack(blocked))
  end
  if #members > 0 then
    redis.call('ZADD', q.ready, unpack(moved))
    redis.call('ZREM', q.scheduled, unpack(members))
  end
  return #rows / 2
end

-- Expires waiting messages whose time to live has ended (I7). Returns how many rows it checked.
function Upkeep.expire_over(q, limit)
  local ids = redis.call('ZRANGEBYSCORE', q.expiring, '-inf', q.now, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    local state, head, later = State.read(q, id)
    local waits = state and state.part == 'live' and state.mark == '-'
    local expires = waits and State.expiry_of(head, state)
    if later then
      redis.call('ZADD', q.expiring, q.now + Record.AGAIN, id)
    elseif not expires then -- left behind by a call that was cut off
      redis.call('ZREM', q.expiring, id)
    elseif expires > q.now then
      redis.call('ZADD', q.expiring, expires, id)
    else
      Upkeep.expire_message(q, id, state, head)
    end
  end
  return #ids
end

-- Expires one waiting message (I7).
function Upkeep.expire_message(q, id, state, head)
  local member = Order.member_of(id, head, state.due)
  Judge.bury(q, id, state, head, 'expired', 'expired')
  redis.call('ZREM', q.ready, member) -- it was in one of the two
  Places.leave(q, id, q.scheduled, member)
end

-- Takes messages back whose leases have lapsed, and judges them by the policy. Returns how many it checked.
-- drains
function Verbs.sweep(q, ARGV)
  local limit, seed, default_policy, lapse_error = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
  q.seed, q.default_policy, q.lapse_error = seed, default_policy, lapse_error
  local looked = Upkeep.sweep_lapsed(q, limit)
  if looked > 0 then
    Queue.wake(q)
  end
  return looked
end

-- Makes the scheduled messages that are due ready. Returns how many.
-- drains
function Verbs.promote(q, ARGV)
  local limit = tonumber(ARGV[1])
  local promoted = Upkeep.promote_due(q, limit)
  if promoted > 0 then
    Queue.wake(q)
  end
  return promoted
end

-- Moves waiting messages whose time to live has ended to the expiry queue. Returns how many rows it checked.
-- drains
function Verbs.expire(q, ARGV)
  local limit = ARGV[1]
  return Upkeep.expire_over(q, limit)
end

-- Discards, of one index, at most `limit` messages that are there for longer than `kept_for`; returns how many.
local function retire(q, index, kept_for, limit)
  if type(kept_for) ~= 'number' or kept_for < 0 or kept_for ~= kept_for then -- it is not set, or damaged, perhaps NaN
    return 0
  end
  local range = { score = '-inf', member = '', last_score = q.now - kept_for, last_member = '\255' }
  local looked, retired = 0, 0
  while range.score ~= '' and retired < limit and looked < Bounds.ROWS do -- rows of a later form stay, perhaps in front
    range.limit = limit - retired
    looked = looked + range.limit
    local gone, score, member = Choice.each(q, index, range, function(id, state, head, row)
      if index == q.dead then
        Groups.ungroup(q, state, row)
      end
      Gathers.note_end(q, id, state.more, 'discarded')
      redis.call('HINCRBY', q.counters, 'discarded', Places.drop(q, { id }))
      Places.leave(q, id, index, row)
      Outcomes.note(q, 'discarded', id, head, state, 0, { cause = 'retired' })
    end)
    retired, range.score, range.member = retired + gone, score, member
  end
  return retired
end

-- Discards dead letters and expired messages that are older than the queue's settings allow, and counts them (I14). Returns
-- how many.
-- drains
function Verbs.retire(q, ARGV)
  local limit = tonumber(ARGV[1])
  local strategy = Judge.read_strategy(q)
  local retired = retire(q, q.dead, strategy.dead_for, limit)
  return retired + retire(q, q.expired, strategy.expired_for, limit - retired)
end
