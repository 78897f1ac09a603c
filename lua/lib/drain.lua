-- Lets messages of a dependency in that is up again, never more than 32 at a time: so the others are not flooded. Where nobody
-- waits and none is in work, it is over.
--   count: at most so many
-- needs: now, BLOCKED, digits, breaker, let_through, write_lane; keys: scheduled, seats
-- gives: drain
local AT_ONCE = 32 -- ready or in work

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
