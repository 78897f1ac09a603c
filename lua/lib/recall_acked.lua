-- Marks as known those of the ids that were acked within the queue's dedup_window (lib/remember_acked).
-- needs: now, span; keys: acked_ids
-- gives: recall_acked
local function recall_acked(ids, known, dedup_window)
  local window = span(dedup_window)
  for n, id in ipairs(window and ids or {}) do
    local at = not known[n] and tonumber(redis.call('ZSCORE', acked_ids, id) or nil)
    known[n] = known[n] or at and at > now - window
  end
end
