-- When a redriven message expires; nil: never. A field of the state holds it (lib/with_expiry_word), since a death ends the
-- time to live in the record.
--   ttl: milliseconds; 0: none; -1: it keeps the one that it was sent with, or that another redrive gave it since
-- needs: now
-- gives: redriven_expiry
local function redriven_expiry(ttl, head, state)
  if ttl < 0 then
    return tonumber(state.more:match(' expires=(%d+)') or nil) or head.expires
  end
  return ttl > 0 and now + ttl or nil
end
