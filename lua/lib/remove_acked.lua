-- Removes messages that were acked, given their ids, their states before the ack, and their results (lib/acked).
-- Returns the dependency whose breaker that closed; nil: none.
-- gives: remove_acked
local function remove_acked(ids, texts, given)
  -- needs: acked, back
  return back
end
