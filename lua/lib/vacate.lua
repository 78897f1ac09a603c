-- Gives back the seats that these messages hold, and lets in who is next in their lanes.
-- needs: let_in; keys: seats
-- gives: vacate
local function vacate(ids)
  local given, lanes, seen = {}, {}, {}
  for n, lane in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
    if lane then
      given[#given + 1] = ids[n]
      if not seen[lane] then
        lanes[#lanes + 1], seen[lane] = tonumber(lane), true
      end
    end
  end
  if #given > 0 then
    redis.call('ZREM', seats, unpack(given))
    let_in(lanes)
  end
end
