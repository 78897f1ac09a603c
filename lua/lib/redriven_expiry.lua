-- When a message expires that a redrive brings back; nil: never. A word of the state says so (lib/with_expiry_word), since a
-- death ends the time to live that stands in the record.
--   ttl: milliseconds; 0: it has none; -1: the one that it was sent with goes on, or that another redrive gave it since
-- needs: now
-- gives: redriven_expiry
local function redriven_expiry(ttl, head, state)
  if ttl < 0 then
    return tonumber(state.more:match(' expires=(%d+)') or nil) or head.expires
  end
  return ttl > 0 and now + ttl or nil
end
