-- What calls that were cut off left behind in lanes is repaired, a little in each call.
--
-- It is a part of claims, once a second for a queue, not a verb: a message that waits beside a free seat matters only
-- if a consumer claims.
local KEPT = 600000 -- milliseconds for which the position is kept

-- Whether a message keeps the seat that it holds; one that is still blocked in the lane of its key becomes ready. The seat
-- of a call whose message was cancelled stays as long as the lease. If keys have a rate, a blocked message gives its seat
-- back; and a leased one whose claim was cut off takes its slot now.
--   own: the score of the seat
local function seat_is_due(q, id, own)
  if own == Lanes.IN_FLIGHT then
    return true
  end
  local token, cancelled = id:match('^\2(%S+) (.*)$')
  if token then -- if the cancel was cut off, the message is still held, and has its own
    local still_held = State.holds(token, redis.call('HGET', q.states, cancelled))
    return redis.call('ZSCORE', q.leases, token) ~= false and not still_held
  end
  local state, head, later = State.read(q, id)
  if not state then
    return later
  elseif state.mark == '+' then
    if q.rule.interval and own % 1 > 0 then
      Rates.take_slots(q, { id })
    end
    return not q.rule.in_turn
  end
  local member = Order.member_of(id, head, state.due)
  local score = state.part == 'live' and tonumber(redis.call('ZSCORE', q.scheduled, member) or 0) or 0
  local is_blocked = head.lane and score == Lanes.BLOCKED + head.lane
  if is_blocked and (q.rule.interval or Lanes.is_closed(q, head.lane)) then
    return false
  elseif is_blocked then
    redis.call('ZADD', q.ready, Order.score_of(head.priority, q.now), member)
    redis.call('ZREM', q.scheduled, member)
  end
  return Seats.keeps_seat(q, state, score > 0 and not is_blocked)
end

-- Whether a message keeps its pass: it is ready or being processed, and the gate still exists. A pass whose end is missing,
-- or too far away since the clock stepped back, ends now.
--   number: the score of the pass
local function pass_is_due(q, id, number)
  local state, head, later = State.read(q, id)
  if not state then
    return later
  end
  local is_there = state.mark == '+' or redis.call('ZSCORE', q.ready, Order.member_of(id, head, state.due))
  local keeps = state.part == 'live' and is_there and Lanes.read(q, math.floor(number)) and true or false
  local ends = keeps and number % 1 == 0 and tonumber(redis.call('ZSCORE', q.gates, Lanes.PASS .. id) or math.huge)
  if ends and ends > q.now + q.breaker.longest then
    redis.call('ZADD', q.gates, q.now, Lanes.PASS .. id)
  end
  return keeps
end

-- Makes blocked messages of these lanes due, since keys no longer have a rule; when none is left, forgets the seats and the
-- rule.
local function unblock(q, lanes)
  local is_done = Lanes.make_due(q, lanes) == 0 and redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf') == 0
  if is_done and q.set.per_key == 'off' then -- otherwise `per_key` is damaged or of a later version
    redis.call('UNLINK', q.seats, q.slots, q.tended)
    redis.call('HDEL', q.settings, 'per_key', 'narrowed')
  end
end

-- Makes a lane due now whose gate is missing, or further away than a probe can be, since the clock stepped back, or calls
-- that hung have ended, or the queue no longer has a breaker. A pause is left as it is.
local function recheck(q, number)
  local lane, name = Lanes.read(q, number), Values.digits(number)
  if not (lane.open or lane.drains) or lane.paused then
    return
  end
  local at = tonumber(redis.call('ZSCORE', q.gates, name) or nil)
  local longest = Probes.hung_wait(q, name)
  if lane.open and not q.set.breaker or not (at and at <= q.now + longest) then
    redis.call('ZADD', q.gates, q.now, name)
  end
end

-- Reads seats and passes, some per call: those go that no message should hold. Returns where the next call continues.
--   position: the value that the last call returned; nil: from the front
local function tend_seats(q, position)
  local score, member = (position or ''):match('^(%S+) (.*)$')
  local held, next_score, next_member = Order.rows_after(q.seats, score or '-inf', member or '', Bounds.LANES)
  local lost, of_keys = {}, {}
  for _, id in ipairs(held) do
    local own = tonumber(redis.call('ZSCORE', q.seats, id) or 0)
    local keeps
    if id:sub(1, 1) == Lanes.PASS then
      keeps = pass_is_due(q, id:sub(2), own)
    else
      keeps, of_keys[#of_keys + 1] = seat_is_due(q, id, own), id
    end
    if not keeps then
      lost[#lost + 1] = id
    end
  end
  if #lost > 0 then
    Seats.vacate(q, lost)
  end
  if #of_keys > 0 and (q.set.narrowed or not q.rule.in_turn) then
    local _, too_many = Narrow.narrow(q, redis.call('ZMSCORE', q.seats, unpack(of_keys)), of_keys)
    if too_many then -- until these are done, claims look for such lanes
      redis.call('HSET', q.settings, 'narrowed', Lanes.WALKS)
    end
  end
  return (next_score == '' and '-inf' or next_score) .. ' ' .. next_member
end

-- Repairs what a call that was cut off left behind in lanes: admits blocked messages beside a free seat, makes blocked
-- messages with a seat ready, and takes seats away from messages that are gone, or should hold none. Reads some lanes and
-- some seats per call, and the next call continues there. If no closed lane is left, the settings are cleared.
function Tend.tend(q)
  local front = Values.digits(Lanes.BLOCKED - 1)
  local after, position = (redis.call('GET', q.tended) or ''):match('^%d+ (%d+) (.*)$')
  local open = {}
  after = after or front
  for _ = 1, Bounds.LANES do
    local found = redis.call('ZRANGEBYSCORE', q.scheduled, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    after = found or front
    if not found then
      break
    end
    local lane = math.floor(tonumber(found)) - Lanes.BLOCKED -- Lanes.TRIED
    if Lanes.is_gated(q, lane) then
      recheck(q, lane)
    else
      open[#open + 1] = Values.digits(lane)
    end
  end
  if q.rule.limit < math.huge then
    Seats.admit(q, open)
  else
    unblock(q, open)
  end
  local next_position = tend_seats(q, position)
  redis.call('SET', q.tended, q.now .. ' ' .. after .. ' ' .. next_position, 'PX', KEPT)
  if q.set.narrowed and next_position:find('^%-inf') and redis.call('HINCRBY', q.settings, 'narrowed', -1) <= 0 then
    redis.call('HDEL', q.settings, 'narrowed') -- every seat was read since a rule allowed fewer (tend_seats)
  end
  if q.set.numbered then
    Renumber.mend(q)
  end
  local nobody_waits = q.rule.limit < math.huge or redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf') == 0
  if (q.set.gated or q.set.limited) and nobody_waits and redis.call('EXISTS', q.special, q.gates) == 0 then
    redis.call('HSET', q.settings, 'gated', Lanes.PLAIN)
    redis.call('HDEL', q.settings, 'limited')
  end
end
