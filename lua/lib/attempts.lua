-- How often a message was worked on: its deliveries, but for those given back by a holder that had not begun it. These
-- are counted in a field of its state, untried=N (lib/count_untried).
-- gives: attempts, untried
local function untried(state)
  return tonumber(state.more:match(' untried=(%d+)') or 0)
end

local function attempts(state)
  return math.max(state.deliveries - untried(state), 0)
end
