-- Lets in messages of a dependency that is up again, never more than 32 at a time, so that other messages do not wait
-- behind a flood. When none is blocked and none is ready or being processed, the drain ends.
--   count: the most messages that this call lets in
-- needs: now, BLOCKED, digits, breaker, let_through, write_lane; keys: scheduled, seats
-- gives: drain
local AT_ONCE = 32 -- ready or being processed

local function drain(number, lane, count)
  local score = digits(BLOCKED + number)
  let_through(number, math.max(0, math.min(count, AT_ONCE - redis.call('ZCOUNT', seats, number, number))), 0)
  local waiting = redis.call('ZCOUNT', scheduled, score, score)
  if waiting + redis.call('ZCOUNT', seats, number, number) > 0 then
    lane.due = now + breaker.probe
  elseif lane.trusts and lane.trusts > now then
    lane.drains, lane.due = nil, lane.trusts
  else
    lane = nil
  end
  write_lane(number, lane)
end
