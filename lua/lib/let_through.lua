-- Lets blocked messages of a dependency through its gate: each is ready with a pass, if it has or gets a seat of its key,
-- otherwise it waits for that in the lane of its key. Record and state are checked, as in lib/let_in.
--   count: the most that it lets through; first: where in the lane it begins
-- needs: now, BLOCKED, digits, PASS, id_of, is_blocked_row, read_record, enter, is_closed, score_of, wake_one
-- needs: keys: messages, states, seats, ready, scheduled
-- gives: let_through
local SPARE = 20 -- more rows that it reads, in place of those that are not let through (I9)

-- Whether the message may be ready now; if not, also the lane of its key.
local function has_seat(id, row, record)
  local lane = read_record(record).lane
  if not lane or not is_closed(lane) and enter(id, row, lane) then
    return true
  end
  return false, lane
end

local function let_through(number, count, first)
  local score, through = digits(BLOCKED + number), 0
  if count < 1 then
    return
  end
  for _, row in ipairs(redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', first, count + SPARE)) do
    local id = id_of(row)
    local record = redis.call('HGET', messages, id)
    if through == count then
      break
    elseif not is_blocked_row(row, id, redis.call('HGET', states, id), record) then
      redis.call('ZREM', scheduled, row)
    else
      local seated, lane = has_seat(id, row, record)
      if seated then
        redis.call('ZADD', seats, number, PASS .. id)
        redis.call('ZADD', ready, score_of(9 - row:byte(), now), row)
        redis.call('ZREM', scheduled, row)
        through = through + 1
      else
        redis.call('ZADD', scheduled, BLOCKED + lane, row)
        redis.call('ZREM', seats, id) -- with ordered keys it kept one
      end
    end
  end
  if through > 0 then
    wake_one()
  end
end
