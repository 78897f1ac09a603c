-- Removes messages that were acked, from their ids and the states that they had (lib/acked).
-- gives: remove_acked
local function remove_acked(ids, texts)
  -- needs: acked
  return acked
end
