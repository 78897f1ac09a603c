-- The items from items[first] to items[last] (id, payload, …) whose ids the queue already has, so that a send would leave
-- them as they are (lib/packed): the positions of their ids.
-- needs: now, recall_results; keys: messages, settings
-- gives: known_in
local function known_in(items, first, last)
  local ids, known = {}, {}
  for at = first, last, 2 do
    ids[#ids + 1] = items[at]
  end
  local existing, values = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', settings, 'dedup_window', 'results')
  recall_results(ids, existing, values[2])
  if values[1] then
    -- needs: recall_acked
    recall_acked(ids, existing, values[1])
  end
  for n = 1, #ids do
    if existing[n] then
      known[#known + 1] = first + 2 * n - 2
    end
  end
  return known
end
