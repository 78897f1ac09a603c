-- Remembers acked ids for the queue's dedup_window: a send under one of them is known (lib/recall_acked). It removes at
-- most twice as many past ids as it adds (I9), and the key expires when nothing was acked for that time (I13).
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
