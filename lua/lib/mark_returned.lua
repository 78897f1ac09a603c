-- Numbers a letter that is dead again with an old time of death, after an undo or an import: it stands among those that a
-- redrive under way has still to take, and was not there when that began (lib/returned_since).
-- needs: keys: counters
-- gives: mark_returned
local marked -- the number of what this call returns

local function mark_returned(state)
  marked = marked or redis.call('HINCRBY', counters, 'returned', 1)
  state.more = state.more:gsub(' returned=%S*', '') .. ' returned=' .. marked
end
