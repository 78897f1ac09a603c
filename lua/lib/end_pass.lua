-- Ends a pass that has been out for `breaker.longest`, so that a call that hangs keeps no dependency closed. Such a call may
-- go on; its pass no longer counts among those that are out. The more such calls there are, the later the next probe comes:
-- otherwise they would take all workers. A message that no consumer has claimed in that time waits again.
--   member: of `gates` (lib/let_through); at: its score there
-- needs: breaker, hung_wait, read_lane, write_lane, digits; keys: states, seats, gates
-- gives: end_pass
local function end_pass(member, at)
  local number = tonumber(redis.call('ZSCORE', seats, member) or nil)
  if number and number % 1 == 0 then
    local text, lane = redis.call('HGET', states, member:sub(2)), read_lane(number)
    if lane and text and text:find('^%a+/?%a* %+') then
      redis.call('ZADD', seats, number + 0.5, member) -- lib/TRIED
      local began = at - breaker.longest
      local following = began + hung_wait(digits(number))
      lane.probe = lane.open and math.max(lane.probe or 0, following) or nil
      lane.drain = lane.drains and math.max(lane.drain or 0, following) or nil
      lane.hung = lane.hung or began
      write_lane(number, lane)
    else
      redis.call('ZREM', seats, member)
    end
  end
  redis.call('ZREM', gates, member)
end
