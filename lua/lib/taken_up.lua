-- Forgets that a message was passed on (pass_on.lua), and how often in a row it failed uncharged (lib/uncharged): its holder
-- has begun it, or it is buried or moved.
-- gives: taken_up
local function taken_up(state)
  state.more = state.more:gsub(' passed_on=%S*', ''):gsub(' uncharged=%S*', '')
end
