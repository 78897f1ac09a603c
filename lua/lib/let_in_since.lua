-- After a claim has taken messages of a queue with a rule for keys: takes the slots and gives back the seats of those that
-- it hands out (lib/handed_out); `unwatched`: no client has set its alarm for a slot. `let_in_since`: whether any message
-- is ready now, which the claim may not have read, since some were let in.
-- needs: per_key, paced, capacity, chosen; keys: ready
-- gives: let_in_since, unwatched
local let_in_since, unwatched = per_key and capacity > 0, false
if let_in_since then
  if (paced or per_key:find('^fair')) and #chosen > 0 then
    -- needs: handed_out
    unwatched = handed_out(chosen)
  end
  let_in_since = redis.call('ZCARD', ready) > 0
end
