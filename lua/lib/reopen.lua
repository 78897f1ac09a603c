-- Opens a closed lane: the lane of a key lets in messages that have or get a seat; the lane of a dependency drains.
-- needs: now, rule, breaker, let_in, drain, write_lane, BLOCKED, digits; keys: scheduled
-- gives: reopen
local ROWS = 1000 -- rows of a key without a rule; lib/tend does the rest (I9)
local AT_FIRST = 32

local function reopen(number, lane)
  lane.paused, lane.ends, lane.by, lane.open = nil, nil, nil, nil
  if lane.of == 'dependency' then
    lane.probe, lane.probes, lane.wait, lane.idle, lane.dead, lane.died, lane.error = nil, nil, nil, nil, nil, nil, nil
    lane.drains, lane.drain = lane.drains or now, now + breaker.probe
    write_lane(number, lane) -- first: while it is open, only probes have a pass
    drain(number, lane, AT_FIRST)
    return
  end
  write_lane(number, nil)
  if rule.limit < math.huge then
    return let_in({ number })
  end
  local score, due = digits(BLOCKED + number), {}
  for _, row in ipairs(redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', 0, ROWS)) do
    due[#due + 1], due[#due + 2] = now, row
  end
  if #due > 0 then
    redis.call('ZADD', scheduled, unpack(due))
  end
end
