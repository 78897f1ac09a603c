-- Takes the slots of messages that are handed out, if keys have a rate: the next of each lane follows after an interval.
-- Returns when.
-- needs: now, rule; keys: seats, slots
-- gives: take_slots
local KEPT = 86400000 -- milliseconds for which slots stay that no claim forgets (lib/pass_slots)

local function take_slots(ids)
  local next_at, taken, given = now + rule.interval, {}, {}
  for n, seat in ipairs(redis.call('ZMSCORE', seats, unpack(ids))) do
    if seat then
      local lane = string.format('%.0f', math.floor(tonumber(seat)))
      taken[#taken + 1], taken[#taken + 2] = next_at, lane
      given[#given + 1], given[#given + 2] = lane, ids[n]
    end
  end
  if #taken > 0 then
    redis.call('ZADD', slots, unpack(taken))
    redis.call('PEXPIRE', slots, math.ceil(rule.interval) + KEPT)
    redis.call('ZADD', seats, unpack(given)) -- it was let in by the rate, and no longer counts as ready
  end
  return next_at
end
