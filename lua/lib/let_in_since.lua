-- After a claim has taken messages of a queue where keys count: sees to the slots and the seats of what it hands out
-- (lib/handed_out); `unwatched`: there is a slot for which no client has set its alarm. Whether anything is ready now, which
-- the claim may not have seen, since someone was let in.
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
