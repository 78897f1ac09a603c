-- Of the rows that a claim may take, with their ids and states, those of messages that have no key, or a seat. A message
-- with a key but no seat gets one, or is blocked: keys had no rule when it became ready, or another program made it ready.
-- If messages that were sent later hold the seats and are still ready, it takes over the seat of one, which is blocked. If any
-- was blocked, it reads a hundred rows more, so that few claims are enough.
--   held: for each its lane, if it has a seat
-- needs: rule, enter, block, takes_over, waiting_lane, id_of; keys: states, ready, seats
-- gives: with_seats
local AHEAD = 100 -- rows (I9)

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
