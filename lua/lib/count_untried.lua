-- Counts that a holder gave a message back before it began (lib/attempts).
-- needs: untried
-- gives: count_untried
local function count_untried(state)
  local count = string.format(' untried=%.0f', untried(state) + 1)
  state.more = state.more:gsub(' untried=%S*', '') .. count
end
