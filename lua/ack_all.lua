-- Acks all of the messages or none: the end of a session that sends nothing. Returns, for each item that is not held, its
-- position (1, 2, …) and its verdict. If there is one, nothing was changed.
-- drains
-- items from ARGV[1]: id, token
-- needs: holds, SETTLED, refusal, remove_acked, let_go; keys: states
local ids, texts, held, lost, seen = {}, {}, {}, {}, {}
for i = 1, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local text = redis.call('HGET', states, id)
  local verdict = holds(token, text) and SETTLED or refusal(id, token, text)
  if verdict == SETTLED and not seen[id] then -- an item may be given twice
    ids[#ids + 1], texts[#ids + 1] = id, text
    held[token], seen[id] = (held[token] or 0) + 1, true
  elseif verdict ~= SETTLED then
    lost[#lost + 1], lost[#lost + 2] = (i + 1) / 2, verdict
  end
end
if #lost == 0 then
  remove_acked(ids, texts, {})
  let_go(held)
end
return lost
