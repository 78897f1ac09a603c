-- Done, all or nothing: the end of a session that sends nothing. Returns a verdict for each item that is not held
-- (its place, 1, 2, …, and the verdict); if there is one, nothing was done.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local leases, claims, counters, settings, outcomes = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
-- items from ARGV[1]: id, token
-- @include lib/holds
-- @include lib/refusal
-- @include lib/let_go
-- @include lib/remove_acked
local ids, held, lost, seen = {}, {}, {}, {}
for i = 1, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local text = redis.call('HGET', states, id)
  local verdict = holds(token, text) and SETTLED or refusal(id, token, text)
  if verdict == SETTLED and not seen[id] then -- an item may be there twice
    ids[#ids + 1], held[token], seen[id] = id, (held[token] or 0) + 1, true
  elseif verdict ~= SETTLED then
    lost[#lost + 1], lost[#lost + 2] = (i + 1) / 2, verdict
  end
end
if #lost == 0 then
  remove_acked(ids)
  for token, count in pairs(held) do
    let_go(token, count)
  end
end
return lost
