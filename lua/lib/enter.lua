-- Gives a message a seat of its lane, if it may have one: it holds one already, or one is free, and no other message of the
-- lane is blocked, and the lane is not closed. So no message overtakes a blocked one. Returns whether it may be ready; if
-- not, its row belongs in `scheduled`, at BLOCKED + lane; or at the slot that is returned, where it waits with its seat. A
-- seat is a member of a set: taking one twice, or giving one back twice, changes nothing.
--   row: its own; a row of the same id may have been left behind by a script that was cut off
--   full: the lanes that were found full, for a call that only enters messages; nil: check each time
-- needs: rule, BLOCKED, is_closed, digits, free_seats, seat_in; keys: seats, scheduled
-- gives: enter
local function enter(id, row, lane, full)
  if rule.limit == math.huge then
    return true
  end
  local has_room = not (full and full[lane] or is_closed(lane))
  if has_room then
    local score = digits(BLOCKED + lane)
    local head = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, 1)[1]
    -- If keys have a rate, the head may wait past its slot, and leave: lib/pass_slots then lets in the new head.
    has_room = (not head or head == row and not rule.interval) and free_seats(lane) > 0
  end
  if has_room then
    redis.call('ZADD', seats, seat_in(lane), id) -- before its row in `ready`
    return true
  elseif full then
    full[lane] = true
  end
  local own = redis.call('ZSCORE', seats, id)
  if own and rule.interval then
    -- needs: comes_by_rate
    return comes_by_rate(id, lane, tonumber(own))
  end
  return own ~= false -- its own seat counts as free
end
