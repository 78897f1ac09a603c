-- Removes messages that were acked, from their ids, the states that they had, and their results (lib/acked).
-- gives: remove_acked
local function remove_acked(ids, texts, given)
  -- needs: acked
  return acked
end
