-- How often a message was attempted: its deliveries, except those that were given back before the holder began. The state
-- counts these in its field untried=N (lib/count_untried).
-- gives: attempts, untried
local function untried(state)
  return tonumber(state.more:match(' untried=(%d+)') or 0)
end

local function attempts(state)
  return math.max(state.deliveries - untried(state), 0)
end
