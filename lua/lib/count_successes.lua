-- Counts the successes of dependencies with recent failures.
--   successes, probed: from lib/succeeded
-- needs: digits; keys: strikes
-- gives: count_successes
local function count_successes(successes, probed, gated)
  for dependency, times in pairs(successes) do
    local name = digits(dependency) .. ' acks'
    if redis.call('HEXISTS', strikes, name) == 1 then
      redis.call('HINCRBY', strikes, name, times)
    end
    if gated then
      -- needs: read_lane, come_back
      local lane = read_lane(dependency)
      if lane and (lane.open and probed[dependency] or lane.drains and not lane.paused) then
        come_back(dependency, lane, times)
      end
    end
  end
end
