-- Numbers a message that is dead again with an old time of death, after an undo or an import: it is among those that an
-- active redrive has still to take, but was not there when that began (lib/returned_since).
-- needs: keys: counters
-- gives: mark_returned
local marked -- the number that this call gives

local function mark_returned(state)
  marked = marked or redis.call('HINCRBY', counters, 'returned', 1)
  state.more = state.more:gsub(' returned=%S*', '') .. ' returned=' .. marked
end
