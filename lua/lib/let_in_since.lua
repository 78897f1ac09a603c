-- After a claim has taken messages of a queue where keys count: where lanes take turns, gives back the seats of what it hands
-- out. Whether anything is ready now, which the claim may not have seen, since someone was let in.
-- needs: per_key, capacity, chosen; keys: ready
-- gives: let_in_since
local let_in_since = per_key and capacity > 0
if let_in_since then
  if per_key:find('^fair') and #chosen > 0 then
    -- needs: vacate
    vacate(chosen)
  end
  let_in_since = redis.call('ZCARD', ready) > 0
end
