-- Gives back the seats that these messages hold, and lets in the next messages of their lanes.
-- once
-- needs: BLOCKED, let_in, due_first; keys: seats, scheduled
-- gives: vacate
local function vacate(ids)
  if redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0 then -- no message is blocked
    redis.call('ZREM', seats, unpack(ids))
    return
  end
  local given, leaving, lanes, seen = {}, {}, {}, {}
  for n, lane in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
    if lane then
      lane = tonumber(lane)
      lane = lane - lane % 1 -- lib/BY_RATE
      given[#given + 1], leaving[ids[n]] = ids[n], true
      if not seen[lane] then
        lanes[#lanes + 1], seen[lane] = lane, true
      end
    end
  end
  if #given > 0 then
    due_first(leaving)
    redis.call('ZREM', seats, unpack(given))
    let_in(lanes)
  end
end
