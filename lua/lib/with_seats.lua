-- Of the rows that a claim may take, with their ids and states, those of messages that have no key, or a seat. A message
-- with a key but no seat gets one, or is blocked: keys had no rule when it became ready, or another program made it ready.
-- If messages that were sent later hold the seats and are still ready, it takes over the seat of one, which is blocked.
--   held: for each its lane, if it has a seat
-- needs: rule, seat_in, enter, waiting_lane, head_of, parse_state, member_of, BLOCKED; keys: states, ready, scheduled, seats
-- gives: with_seats
local MOST = 100 -- holders that it reads (I9)

local function block(lane, row)
  redis.call('ZADD', scheduled, BLOCKED + lane, row)
  redis.call('ZREM', ready, row)
end

-- Whether a message takes over a seat: of the holders that are still ready and behind it, the last one loses its seat, so that
-- no holder passes another. `displaced` has the ids of the messages that lose theirs.
local function takes_over(id, row, lane, displaced)
  local furthest, loser, its_row = redis.call('ZRANK', ready, row) or math.huge, nil, nil
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', seats, seat_in(lane), seat_in(lane), 'LIMIT', 0, MOST)) do
    local text = redis.call('HGET', states, other)
    local head = head_of(other, text)
    local other_row = head and member_of(other, head, parse_state(text, head.birth).due)
    local rank = other_row and redis.call('ZRANK', ready, other_row) or -1
    if rank > furthest then
      furthest, loser, its_row = rank, other, other_row
    end
  end
  if not loser then
    return false
  end
  redis.call('ZREM', seats, loser) -- first: a cut-off script may leave a free seat, never one too many
  redis.call('ZADD', seats, seat_in(lane), id)
  block(lane, its_row)
  displaced[loser] = true
  return true
end

local function with_seats(held, rows, ids, texts)
  local blocked, displaced = {}, {}
  for n, row in ipairs(rows) do
    local id = ids[n]
    local lane, is_own
    if not held[n] then
      lane, is_own = waiting_lane(id, row, texts[n])
    end
    if lane and not (is_own and (enter(id, row, lane) or takes_over(id, row, lane, displaced))) then
      block(lane, row) -- lib/let_in drops a row that is not its message's own
      blocked[n] = true
      if rule.interval then
        redis.call('ZREM', seats, id) -- it was ready before keys had a rate
      end
    end
  end
  local kept, names, lines = {}, {}, {}
  for n, id in ipairs(ids) do -- an id has a second row, nearer the front, if a script was cut off
    if not blocked[n] and not displaced[id] then
      kept[#kept + 1], names[#names + 1], lines[#lines + 1] = rows[n], id, texts[n]
    end
  end
  return kept, names, lines
end
