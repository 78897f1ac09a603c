-- Removes messages for good (lib/gone), for those that rarely do. Returns how many.
-- needs: setting
-- gives: drop
local function drop(ids)
  local once_gone, per_key = nil, setting('per_key')
  -- needs: gone
  return gone
end
