-- Checks the items to send, items[first] to items[last] (id, payload, …), against the queue and its settings. `existing`:
-- for each id the record that the queue has, in any state; the birth of an earlier message whose ack is kept as its outcome;
-- or true if it was acked within the dedup_window. `ended`: n → true, where another outcome of an earlier message is kept; nil:
-- none are. `opened`: `opening` is the queue's, or empty; otherwise nothing is looked up. `all_asked`: the results of all
-- messages are kept.
-- Statements, as in lib/chosen, since every send runs them.
-- needs: now; keys: messages, settings, results; locals: items, first, last, ttl, opening
-- gives: asked, existing, ended, opened, paused, keys_count, all_asked
local asked, ids = (last - first + 1) / 2, {}
for n = 1, asked do
  ids[n] = items[first + 2 * n - 2]
end
local values = redis.call('HMGET', settings, 'expiry', 'paused', 'dedup_window', 'opening', 'per_key', 'results')
local opened, paused, keys_count = opening == '' or opening == values[4], values[2] == '1', values[5]
local all_asked = (values[6] or ''):find('^[1-9]%d*$')
if values[1] then
  -- needs: allowed_ttl
  ttl = allowed_ttl(ttl, values[1])
end
local existing = opened and redis.call('HMGET', messages, unpack(ids)) or {}
local ended
if opened and redis.call('EXISTS', results) == 1 then
  -- needs: recall_results
  ended = recall_results(ids, existing, values[6])
end
if values[3] then
  -- needs: recall_acked
  recall_acked(ids, existing, values[3])
end
