-- Whether a dead letter returned since a redrive began (lib/mark_returned).
--   r: the redrive, from lib/read_redrive
-- gives: returned_since
local function returned_since(r, state)
  return tonumber(state.more:match(' returned=(%d+)') or 0) > r.returned
end
