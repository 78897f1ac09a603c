-- Lets blocked messages of a dependency through its gate: each is ready with a pass, if it has or gets a seat of its key,
-- otherwise it waits for that in the lane of its key. Record and state are checked, as in lib/let_in. A pass ends in time
-- (lib/end_pass): `gates` has when. Returns how many it let through.
--   rows: of the lane; count: the most that it lets through
-- needs: now, breaker, BLOCKED, PASS, id_of, is_blocked_row, read_record, enter, is_closed, score_of, wake_one, digits
-- needs: keys: messages, states, seats, gates, ready, scheduled
-- gives: let_through

-- Whether the message may be ready now; if not, also the lane of its key.
local function has_seat(id, row, record)
  local lane = read_record(record).lane
  if not lane or not is_closed(lane) and enter(id, row, lane) then
    return true
  end
  return false, lane
end

local function let_through(number, rows, count)
  local through, seen = 0, {}
  for _, row in ipairs(rows) do
    local id = id_of(row)
    local record = not seen[row] and redis.call('HGET', messages, id)
    if through >= count then
      break
    elseif not seen[row] and not is_blocked_row(row, id, redis.call('HGET', states, id), record) then
      redis.call('ZREM', scheduled, row)
    elseif not seen[row] then
      local seated, lane = has_seat(id, row, record)
      if seated then
        redis.call('ZADD', gates, digits(now + breaker.longest), PASS .. id) -- first: no pass is without an end
        redis.call('ZADD', seats, number, PASS .. id)
        redis.call('ZADD', ready, score_of(9 - row:byte(), now), row)
        redis.call('ZREM', scheduled, row)
        through = through + 1
      else
        redis.call('ZADD', scheduled, BLOCKED + lane, row)
        redis.call('ZREM', seats, id) -- with ordered keys it kept one
      end
    end
    seen[row] = true
  end
  if through > 0 then
    wake_one()
  end
  return through
end
