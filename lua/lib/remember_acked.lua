-- Remembers ids that are acked now for as long as the queue's dedup_window says: a send under one of them is
-- known (lib/recall_acked). Of those whose time is over, at most twice as many go as come (I9), and the key itself goes
-- when nothing was acked for as long (I13).
-- needs: span, now; keys: acked_ids; locals: dedup_window
-- gives: remember_acked
local function remember_acked(ids)
  local window, rows, score = span(dedup_window), {}, string.format('%.0f', now)
  if not window then
    return
  end
  for _, id in ipairs(ids) do
    rows[#rows + 1], rows[#rows + 2] = score, id
  end
  redis.call('ZADD', acked_ids, unpack(rows))
  redis.call('PEXPIRE', acked_ids, window)
  local over = redis.call('ZRANGEBYSCORE', acked_ids, '-inf', now - window, 'LIMIT', 0, 2 * #ids)
  if #over > 0 then
    redis.call('ZREM', acked_ids, unpack(over))
  end
end
