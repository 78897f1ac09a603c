-- Gives back the seats that these messages hold, and lets in the next messages of their lanes: as many as gave theirs back.
-- No lane has too many seats, so those that are left are not counted; but if lanes take turns, a claim may have been filled
-- (lib/fill), and if keys have a rate, a free seat is not enough. What a claim finds too many, it takes away (lib/narrow).
-- once
-- needs: BLOCKED, let_in, due_first; keys: seats, scheduled
-- gives: vacate
local function vacate(ids)
  if redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0 then -- no message is blocked
    redis.call('ZREM', seats, unpack(ids))
    return
  end
  local given, size, lanes, room = {}, 0, {}, {}
  for n, lane in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
    if lane then
      lane = tonumber(lane)
      lane = lane - lane % 1 -- lib/BY_RATE
      size = size + 1
      given[size] = ids[n]
      if not room[lane] then
        lanes[#lanes + 1] = lane
      end
      room[lane] = (room[lane] or 0) + 1
    end
  end
  if size > 0 then
    -- needs: rule
    due_first(given)
    redis.call('ZREM', seats, unpack(given))
    let_in(lanes, not rule.in_turn and not rule.interval and room or nil)
  end
end
