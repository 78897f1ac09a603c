-- Forgets that a message was passed on (pass_on.lua): its holder has begun it, or it is buried or moved.
-- gives: taken_up
local function taken_up(state)
  state.more = state.more:gsub(' passed_on=%S*', '')
end
