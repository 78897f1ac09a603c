-- Adds items to the queue, if its opening matches (empty: any). Returns the items that it already had (lib/sent).
-- needs: now, EXPIRES, LONG, pack_number, score_of, order_of, wake_one
-- gives: add
local function add(items, first, last, delay, ttl, opening)
  -- needs: sent, known
  return sent and known
end
