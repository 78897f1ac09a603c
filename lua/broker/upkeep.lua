-- Moves due messages from `scheduled` to `ready`. Only the index changes; the state stays the same. With a rule for keys, a
-- message with a key needs a seat of its lane; otherwise it is blocked there.
--   limit: of rows; nil: as many as a script moves before it gives a seat; more are due only if nothing claims (Claim)
--   leaving: ids whose seats the script gives back, and whose rows it is about to remove: they stay; nil: none
local MOVED, STAYS = 200, -1

-- The score at which a due message with a key still waits; false: it may be ready.
local function blocked_at(q, row, leaves, full)
  local id = Order.id_of(row)
  if leaves[id] then
    return STAYS
  end
  local lane, is_own = Lanes.waiting_lane(q, id, row, redis.call('HGET', q.states, id))
  if not is_own then
    return false
  end
  local may, slot = Seats.enter(q, id, row, lane, full)
  return not may and (slot or Lanes.BLOCKED + lane)
end

function Upkeep.promote_due(q, limit, leaving)
  local rows = redis.call('ZRANGEBYSCORE', q.scheduled, '-inf', q.now, 'WITHSCORES', 'LIMIT', 0, limit or MOVED)
  local moved, members, blocked, full, leaves = {}, {}, {}, {}, {}
  local per_key = #rows > 0 and q.set.per_key
  for _, id in ipairs(leaving or {}) do
    leaves[id] = true
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

-- Expires messages whose time to live has ended. An index holds the waiting messages that have one (I7). Returns how many
-- rows it checked.
function Upkeep.expire_over(q, limit)
  local ids = redis.call('ZRANGEBYSCORE', q.expiring, '-inf', q.now, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    local text = redis.call('HGET', q.states, id)
    local head, later = Record.head_of(q, id, text)
    local state = head and State.parse(text, head.birth)
    local waits = state and state.part == 'live' and state.mark == '-'
    local expires = waits and State.expiry_of(head, state)
    if later then
      redis.call('ZADD', q.expiring, q.now + Record.AGAIN, id)
    elseif not expires then -- left behind by a script that was cut off
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

-- Makes the scheduled messages that are due ready. Returns how many.
-- drains
function Verbs.promote(q, ARGV)
  local limit = ARGV[1]
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

local MOST = 1000 -- rows that one call of `retire` checks (I9): those of a later form stay, perhaps in front

-- Discards, of one index, at most `limit` messages that are there for longer than `kept_for`; returns how many.
local function retire(q, index, kept_for, limit)
  if type(kept_for) ~= 'number' or kept_for < 0 then -- it is not set, or damaged
    return 0
  end
  local range = { score = '-inf', member = '', last_score = q.now - kept_for, last_member = '\255' }
  local looked, retired = 0, 0
  while range.score ~= '' and retired < limit and looked < MOST do
    range.limit = limit - retired
    looked = looked + range.limit
    local gone, score, member = Choice.each(q, index, range, function(id, state, head, row)
      if index == q.dead then
        Groups.ungroup(q, state, row)
      end
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
