-- The longest wait until the next probe of a dependency, milliseconds: `breaker.longest`, twice as long for each call that
-- was let through and did not end in that time, at most an hour. And how many such calls there are.
--   name: its lane, as text
-- needs: breaker, TRIED; keys: seats
-- gives: hung_wait
local HOUR = 3600000

local function hung_wait(name)
  local hung = redis.call('ZCOUNT', seats, name .. TRIED, name .. TRIED)
  return hung == 0 and breaker.longest or math.min(breaker.longest * 2 ^ hung, HOUR), hung
end
