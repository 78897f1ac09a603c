-- The rates of a queue and of its keys.
--
-- The rate of keys is a slot of a lane, one row with a time, not a bucket, which would have to be counted and refilled. It
-- is written when a message is delivered, not when it is admitted: a ready message that waits for a consumer costs nothing.
-- The score of its seat, a half more, distinguishes a message that is ready by its rate from a leased one.
local KEPT = 86400000 -- milliseconds for which slots stay that no claim forgets (Rates.admit_due)
local SPARE = 10 -- lanes whose slots a claim ends, beyond two per message

-- How many messages a rate allows now: a bucket of tokens, kept as the time until which the messages so far use up the rate
-- (GCRA). A burst is the messages of a second, at least one. A time further ahead counts as now: the clock stepped back.
-- Returns nil, or { interval: milliseconds between two messages; from: the time from which the next ones use up the rate;
-- most: how many are allowed now; at: when one more is allowed; spent: how many it has allowed so far }.
function Rates.bucket(q, rate)
  local interval = Values.interval_of(rate)
  if not interval then
    return nil
  end
  local kept = redis.call('HMGET', q.counters, 'rate_until', 'rate_spent') -- from and spent (Rates.spend)
  local burst = math.max(1000, interval) -- milliseconds
  local from, spent = tonumber(kept[1] or nil), tonumber(kept[2] or nil) or 0
  if not from or from < q.now or from > q.now + burst + interval then
    from = q.now
  end
  local most = math.floor((q.now + burst - from) / interval + 0.001) -- a time has no more digits
  local at = math.ceil(from + (most + 1) * interval - burst)
  return { interval = interval, from = from, most = most, at = at, spent = spent }
end

-- Records messages that were handed out by a queue's rate (Rates.bucket).
function Rates.spend(q, by_rate, count)
  local reached = string.format('%.17g', by_rate.from + count * by_rate.interval)
  redis.call('HSET', q.counters, 'rate_until', reached, 'rate_spent', Values.digits(by_rate.spent + count))
end

-- Gives the tokens of messages of a claim back, which do not count. Those that were handed out later have used up the rate
-- as well, at the latest now: so messages that are given back late do not bring a second burst.
function Rates.give_back(q, token, count)
  local by_rate = Rates.bucket(q, q.set.rate)
  local _, spent = Leases.handed_out(q, token)
  if by_rate and spent and spent <= by_rate.spent then
    local later = q.now + (by_rate.spent - spent) * by_rate.interval
    local reached = math.max(by_rate.from - count * by_rate.interval, math.min(by_rate.from, later))
    redis.call('HSET', q.counters, 'rate_until', string.format('%.17g', reached))
  end
end

-- The slot at this time (nil: none), unless it is over. A time further ahead than a rate makes a message wait counts as
-- now: the clock stepped back.
local function still_ahead(q, at)
  return at and at > q.now and at <= q.now + q.rule.interval and at or nil
end

-- When the next message of a lane may be admitted by the rate of keys; nil: now.
--   name: of the lane
function Rates.slot_of(q, name)
  return still_ahead(q, tonumber(redis.call('ZSCORE', q.slots, name) or nil))
end

-- The names of the lanes of which a message may be admitted by the rate of keys now.
function Rates.with_slot(q, names)
  local found = {}
  for n, at in ipairs(#names > 0 and redis.call('ZMSCORE', q.slots, unpack(names)) or {}) do
    if not still_ahead(q, tonumber(at or nil)) then
      found[#found + 1] = names[n]
    end
  end
  return found
end

-- If keys have a rate: whether a message that holds a seat of its lane may be ready now. If not, with ordered keys, also
-- its slot: it keeps its seat and is due then.
--   own: the score of its seat
function Rates.comes_by_rate(q, id, lane, own)
  local name = own == lane and Values.digits(lane)
  local slot = name and Rates.slot_of(q, name)
  if slot then
    return false, q.rule.in_order and slot or nil
  elseif name then
    local score = name .. Lanes.BY_RATE
    if redis.call('ZCOUNT', q.seats, score, score) > 0 then
      return false
    end
    redis.call('ZADD', q.seats, score, id)
  end
  return true
end

-- Takes the slots of messages that are handed out, if keys have a rate: the next of each lane follows after an interval.
-- Returns when. Until then no message of these lanes is admitted, so if lanes take turns, seats are only given back.
--   held: as in Seats.vacate
function Rates.take_slots(q, ids, held)
  local next_at, taken, given = q.now + q.rule.interval, {}, {}
  local last, in_turn = 0, q.rule.in_turn
  local score = string.format('%.17g', next_at) -- Redis would print it for each
  held = held or redis.call('ZMSCORE', q.seats, unpack(ids))
  for n = 1, #ids do
    if held[n] then
      local name = Lanes.name_in(held[n])
      taken[last + 1], taken[last + 2] = score, name
      if not in_turn then
        given[last + 1], given[last + 2] = name, ids[n]
      end
      last = last + 2
    end
  end
  if last > 0 then
    Lanes.add(q.slots, taken)
    redis.call('PEXPIRE', q.slots, math.ceil(q.rule.interval) + KEPT)
    if in_turn then
      redis.call('ZREM', q.seats, unpack(ids))
    else
      Lanes.add(q.seats, given) -- they were admitted by the rate, and no longer count as ready
    end
  end
  return next_at
end

-- Admits the next of each lane whose slot is over by the rate of keys, and forgets the slot: two per message that a
-- claim takes.
function Rates.admit_due(q, count)
  local names = redis.call('ZRANGEBYSCORE', q.slots, '-inf', q.now, 'LIMIT', 0, math.min(2 * count + SPARE, Bounds.LANES))
  if #names == 0 then
    return
  end
  if q.rule.interval then
    Seats.admit(q, names[1] == Lanes.LONG and { unpack(names, 2) } or names, nil, true)
  end
  redis.call('ZREM', q.slots, unpack(names)) -- last: by these the next claim finds what a cut-off call left
end

-- Gives back the slot that a message took whose delivery does not count: given back, or lapsed for the first time; but only
-- while it is the newest of the lane: otherwise messages that are given back late would come together. Returns the lane's
-- name, of which the next message may come once this one is where it belongs; nil: keys have no rate.
--   token: of the claim that handed it out
function Rates.slot_back(q, state, head, token)
  local lane = state.part == 'live' and head.lane
  if not (lane and q.rule.interval) then
    return nil
  end
  local name, at = Values.digits(lane), Leases.handed_out(q, token)
  local newest = tonumber(redis.call('ZSCORE', q.slots, name) or nil)
  if at and newest == at + q.rule.interval then
    redis.call('ZREM', q.slots, name)
  end
  return name
end

-- For messages that are handed out if lanes take turns, or keys have a rate: gives back their seats, takes their slots.
-- Returns whether there is a slot for which no client has set its alarm.
--   held: as in Seats.vacate
function Rates.handed_out(q, ids, held)
  local slot
  if q.rule.interval then
    slot = Rates.take_slots(q, ids, held)
  elseif q.rule.in_turn then
    Seats.vacate(q, ids, held)
  end
  local alarm_at = slot and tonumber(redis.call('GET', q.alarm) or nil)
  return slot and not (alarm_at and alarm_at <= slot) or false
end
