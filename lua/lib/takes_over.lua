-- Whether a ready message takes over a seat: of the holders that are still ready and behind it, the last one loses its seat, so
-- that no holder passes another. It passes no blocked message either; if it takes over none, its row may be in both indexes.
--   displaced: the ids of those that have lost their seats
-- needs: free_seats, seat_in, ready_holders, digits, block, BLOCKED; keys: ready, scheduled, seats
-- gives: takes_over
local function takes_over(id, row, lane, displaced)
  if free_seats(lane) < 0 then -- a limit is lower than before: the lane gives no seat
    return false
  end
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
