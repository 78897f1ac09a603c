-- Gives back the seats that these messages hold, and lets in the next messages of their lanes.
-- once
-- needs: BLOCKED, let_in; keys: seats, scheduled
-- gives: vacate
local function vacate(ids)
  if redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0 then -- no message is blocked
    redis.call('ZREM', seats, unpack(ids))
    return
  end
  local given, lanes, seen = {}, {}, {}
  for n, lane in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
    if lane then
      lane = tonumber(lane)
      lane = lane - lane % 1 -- lib/BY_RATE
      given[#given + 1] = ids[n]
      if not seen[lane] then
        lanes[#lanes + 1], seen[lane] = lane, true
      end
    end
  end
  if #given > 0 then
    redis.call('ZREM', seats, unpack(given))
    let_in(lanes)
  end
end
