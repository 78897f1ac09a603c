-- Removes messages for good (lib/gone), for those that rarely do. Returns how many.
-- needs: setting
-- gives: drop
-- Before all changes: no read parts them where a script is cut off.
local rule_of_keys, has_gates = setting('per_key'), setting('gated')

local function drop(ids)
  local once_gone, per_key, gated = nil, rule_of_keys, has_gates
  -- needs: gone
  return gone
end
