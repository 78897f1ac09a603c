-- Removes messages permanently (lib/gone), for scripts that rarely do so. Returns how many.
-- needs: setting
-- gives: drop
-- Read before all changes, so that no read separates them if the script is cut off.
local rule_of_keys, has_gates = setting('per_key'), setting('gated')

local function drop(ids)
  local once_gone, per_key, gated = nil, rule_of_keys, has_gates
  -- needs: gone
  return gone
end
