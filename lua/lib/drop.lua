-- Removes messages for good (lib/gone), for those that rarely do. Returns how many.
-- gives: drop
local function drop(ids)
  local once_gone = nil
  -- needs: gone
  return gone
end
