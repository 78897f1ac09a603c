-- The birth of the send whose outcome is kept (lib/kept): `ended` is the outcome, `born` the row of its birth. nil: unknown,
-- since version 0.1.0 kept that outcome.
-- gives: kept_birth
local function kept_birth(ended, born)
  local head, birth = (born or ''):match('^(%a+ %d+ )(%d+)$')
  birth = head and ended:sub(1, #head) == head and tonumber(birth) or 0
  return birth > 0 and birth or nil
end
