-- The calls of cancelled messages: each keeps its seat, and its place under `max_in_flight`, until it has ended.
local READ = 100 -- places that one claim checks (I9)

-- The seat of a call whose message was cancelled: it stays taken until the call or its lease has ended, so that an ordered
-- key never runs two calls. No id begins with this byte.
local function cancelled_seat(id, token)
  return '\2' .. token .. ' ' .. id
end

-- The place, under `max_in_flight`, of a call whose message was cancelled: it stays taken until the call or its lease has
-- ended. No id begins with this byte.
local function cancelled_place(id, token)
  return '\3' .. token .. ' ' .. id
end

-- Keeps the seat, and the place, of a call whose message is cancelled, until it has ended. Returns whether it has either.
function Calls.keep(q, id, token)
  local seat, place = q.set.per_key and redis.call('ZSCORE', q.seats, id), q.set.max_in_flight
  if seat then
    redis.call('ZADD', q.seats, seat, cancelled_seat(id, token)) -- in place of its own, so that no seat becomes free
    redis.call('ZREM', q.seats, id)
  end
  if place then
    redis.call('HSET', q.settings, 'cancelling', 1) -- first: a claim that finds no place removes it
    redis.call('ZADD', q.seats, Lanes.PLACES, cancelled_place(id, token))
  end
  return seat or place
end

-- Whether a call runs whose message was cancelled: its place, or its seat, is taken.
function Calls.runs(q, id, token)
  local kept = redis.call('ZMSCORE', q.seats, cancelled_place(id, token), cancelled_seat(id, token))
  return kept[1] or kept[2], kept[1], kept[2]
end

-- Ends a call whose message was cancelled, or its lease: gives back its place, and its seat, and lets in the next message
-- of its lane. Returns whether it had either; if so, the claim holds one message fewer.
function Calls.finish(q, id, token)
  local runs, place, seat = Calls.runs(q, id, token)
  if place then
    redis.call('ZREM', q.seats, cancelled_place(id, token))
  end
  if seat then
    Seats.vacate(q, { cancelled_seat(id, token) })
  end
  return runs and true or false
end

-- How many calls of cancelled messages count against `max_in_flight`. A place without a lease is removed: another program
-- ended its claim; and one whose message is still held, since the cancel was cut off. If none is left, claims look for
-- none.
function Calls.count(q)
  local count = redis.call('ZCOUNT', q.seats, Lanes.PLACES, Lanes.PLACES)
  for _, place in ipairs(redis.call('ZRANGEBYSCORE', q.seats, Lanes.PLACES, Lanes.PLACES, 'LIMIT', 0, READ)) do
    local token, id = place:match('^.(%S+) (.*)$')
    if not redis.call('ZSCORE', q.leases, token) or State.holds(token, redis.call('HGET', q.states, id)) then
      redis.call('ZREM', q.seats, place)
      count = count - 1
    end
  end
  if count == 0 then
    redis.call('HDEL', q.settings, 'cancelling')
  end
  return count
end
