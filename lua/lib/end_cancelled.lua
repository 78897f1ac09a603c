-- Ends a call whose message was cancelled, or its lease: gives back its place, and its seat, and lets in the next message
-- of its lane. Returns whether it had either; if so, the claim holds one message fewer.
-- needs: cancelled_seat, cancelled_place; keys: seats
-- gives: end_cancelled
local function end_cancelled(id, token)
  local place, member = cancelled_place(id, token), cancelled_seat(id, token)
  local kept = redis.call('ZMSCORE', seats, place, member)
  if kept[1] then
    redis.call('ZREM', seats, place)
  end
  if kept[2] then
    -- needs: vacate
    vacate({ member })
  end
  return (kept[1] or kept[2]) and true or false
end
