-- Counts the successes of dependencies that have failed lately, and ends their runs. Returns the name of a dependency whose
-- breaker that closed; nil: of none.
--   successes, firsts, probed: from lib/succeeded; batch: how many messages were acked
-- needs: digits; keys: strikes, runs
-- gives: count_successes
local function count_successes(successes, firsts, probed, gated, batch)
  local back
  for dependency, times in pairs(successes) do
    local name = digits(dependency)
    redis.call('HDEL', runs, name)
    if firsts[dependency] and redis.call('HEXISTS', strikes, name) == 1 then
      -- needs: read_window, add_to_window
      add_to_window(name, read_window(name), 0, firsts[dependency])
    end
    if gated then
      -- needs: read_lane, come_back
      local lane = read_lane(dependency)
      if lane and (lane.open and probed[dependency] or lane.drains) then
        back = come_back(dependency, lane, times, batch) or back
      end
    end
  end
  return back
end
