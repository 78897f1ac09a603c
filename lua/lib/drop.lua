-- Removes messages for good (lib/gone), for those that rarely do. Returns how many.
-- needs: setting
-- gives: drop
local rule_of_keys = setting('per_key') -- before all changes: no read parts them where a script is cut off

local function drop(ids)
  local once_gone, per_key = nil, rule_of_keys
  -- needs: gone
  return gone
end
