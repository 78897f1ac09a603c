-- When the next message of a lane may be let in by the rate of keys; nil: now. A time further ahead than a rate lets a
-- message wait counts as now: the clock stepped back.
function Slots.slot_of(q, lane)
  local at = tonumber(redis.call('ZSCORE', q.slots, Values.digits(lane)) or nil)
  return at and at > q.now and at <= q.now + q.rule.interval and at or nil
end

-- If keys have a rate: whether a message that holds a seat of its lane may be ready now. If not, with ordered keys, also
-- its slot: the message keeps its seat and is due then, since no other message is let in before.
--   own: the score of its seat
function Slots.comes_by_rate(q, id, lane, own)
  local slot = own == lane and Slots.slot_of(q, lane)
  if slot then
    return false, q.rule.in_order and slot or nil
  elseif own == lane then
    local score = Values.digits(lane) .. Lanes.BY_RATE
    if redis.call('ZCOUNT', q.seats, score, score) > 0 then
      return false
    end
    redis.call('ZADD', q.seats, score, id)
  end
  return true
end

local KEPT = 86400000 -- milliseconds for which slots stay that no claim forgets (Slots.pass_slots)

-- Takes the slots of messages that are handed out, if keys have a rate: the next of each lane follows after an interval.
-- Returns when.
function Slots.take_slots(q, ids)
  local next_at, taken, given = q.now + q.rule.interval, {}, {}
  for n, seat in ipairs(redis.call('ZMSCORE', q.seats, unpack(ids))) do
    if seat then
      local lane = Values.digits(math.floor(tonumber(seat)))
      taken[#taken + 1], taken[#taken + 2] = next_at, lane
      given[#given + 1], given[#given + 2] = lane, ids[n]
    end
  end
  if #taken > 0 then
    redis.call('ZADD', q.slots, unpack(taken))
    redis.call('PEXPIRE', q.slots, math.ceil(q.rule.interval) + KEPT)
    redis.call('ZADD', q.seats, unpack(given)) -- it was let in by the rate, and no longer counts as ready
  end
  return next_at
end

-- Lets in the next of each lane whose slot has passed by the rate of keys, and forgets the slot: two per message that a
-- claim takes.
local SPARE, PASSED = 10, 1000 -- lanes, as many as Seats.admit reads (I9)

function Slots.pass_slots(q, count)
  local names = redis.call('ZRANGEBYSCORE', q.slots, '-inf', q.now, 'LIMIT', 0, math.min(2 * count + SPARE, PASSED))
  if #names == 0 then
    return
  end
  local lanes = {}
  for n, name in ipairs(names) do
    lanes[n] = tonumber(name)
  end
  if q.rule.interval then
    Seats.admit(q, lanes)
  end
  redis.call('ZREM', q.slots, unpack(names)) -- last: by these the next claim finds what a cut-off script left
end

-- Puts back a message whose delivery does not count: given back, or lapsed for the first time. If keys have a rate, the
-- slot that it took is free again, for it or the next of its lane.
--   put_back: puts the message where it belongs
function Slots.token_back(q, lane, put_back)
  if not q.rule.interval then
    put_back()
    return
  end
  redis.call('ZREM', q.slots, Values.digits(lane))
  put_back()
  Seats.admit(q, { lane })
end

-- For messages that are handed out if lanes take turns, or keys have a rate: gives back their seats, takes their slots.
-- Returns whether there is a slot for which no client has set its alarm.
function Slots.handed_out(q, ids)
  local slot
  if q.rule.interval then -- before the seats, so that no message is let in
    slot = Slots.take_slots(q, ids)
  end
  if q.rule.in_turn then
    Seats.vacate(q, ids)
  end
  local alarm_at = slot and tonumber(redis.call('GET', q.alarm) or nil)
  return slot and not (alarm_at and alarm_at <= slot) or false
end
