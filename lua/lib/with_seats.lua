-- Of the rows that a claim may take, with their ids and states, those of messages that have no key, or a seat. A message
-- with a key but no seat gets one, or is blocked: keys had no rule when it became ready, or another program made it ready.
-- If messages that were sent later hold the seats and are still ready, it takes over the seat of one, which is blocked. If any
-- was blocked, it reads a hundred rows more, so that few claims are enough.
--   held: for each its lane, if it has a seat
-- needs: rule, seat_in, enter, waiting_lane, ready_holders, id_of, digits, BLOCKED; keys: states, ready, scheduled, seats
-- gives: with_seats
local AHEAD = 100 -- rows (I9)

local function block(lane, row)
  redis.call('ZADD', scheduled, BLOCKED + lane, row)
  redis.call('ZREM', ready, row)
end

-- Whether a message takes over a seat: of the holders that are still ready and behind it, the last one loses its seat, so that
-- no holder passes another. It passes no blocked message either. `displaced` has the ids of the messages that lose theirs.
local function takes_over(id, row, lane, displaced)
  local score = digits(BLOCKED + lane)
  redis.call('ZADD', scheduled, score, row) -- so that Redis compares it with those that are blocked
  if redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1] ~= row then
    return false
  end
  local furthest, loser = redis.call('ZRANK', ready, row) or math.huge, nil
  for _, holder in ipairs(ready_holders(seat_in(lane), seat_in(lane))) do
    if holder.rank > furthest then
      furthest, loser = holder.rank, holder
    end
  end
  if not loser then
    return false
  end
  redis.call('ZREM', seats, loser.id) -- first: a cut-off script may leave a free seat, never one too many
  redis.call('ZADD', seats, seat_in(lane), id)
  block(lane, loser.row)
  redis.call('ZREM', scheduled, row)
  displaced[loser.id] = true
  return true
end

-- Blocks a message that has no seat and gets none; whether it did.
local function must_wait(row, id, text, displaced)
  local lane, is_own = waiting_lane(id, row, text)
  if not lane or is_own and (enter(id, row, lane) or takes_over(id, row, lane, displaced)) then
    return false
  end
  block(lane, row) -- lib/let_in drops a row that is not its message's own
  if rule.interval then
    redis.call('ZREM', seats, id) -- it was ready before keys had a rate
  end
  return true
end

local function with_seats(held, rows, ids, texts)
  local blocked, displaced, any = {}, {}, false
  for n, row in ipairs(rows) do
    blocked[n] = not held[n] and must_wait(row, ids[n], texts[n], displaced)
    any = any or blocked[n]
  end
  local kept, names, lines = {}, {}, {}
  for n, id in ipairs(ids) do -- an id has a second row, nearer the front, if a script was cut off
    if not blocked[n] and not displaced[id] then
      kept[#kept + 1], names[#names + 1], lines[#lines + 1] = rows[n], id, texts[n]
    end
  end
  for _, row in ipairs(any and redis.call('ZRANGE', ready, #kept, #kept + AHEAD - 1) or {}) do
    local id = id_of(row)
    if row:byte() < 16 and not redis.call('ZSCORE', seats, id) then -- a key has the long form (lib/order)
      must_wait(row, id, redis.call('HGET', states, id), displaced)
    end
  end
  return kept, names, lines
end
