-- The messages that hold seats with these scores and are still ready: for each its id, its row, and the rank of that in `ready`.
-- needs: head_of, parse_state, member_of; keys: states, ready, seats
-- gives: ready_holders
local HOLDERS = 1000 -- that it reads (I9)

local function ready_holders(first, last)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', seats, first, last, 'LIMIT', 0, HOLDERS)) do
    local text = redis.call('HGET', states, id)
    local head = head_of(id, text)
    local row = head and member_of(id, head, parse_state(text, head.birth).due)
    local rank = row and redis.call('ZRANK', ready, row)
    if rank then
      found[#found + 1] = { id = id, row = row, rank = rank }
    end
  end
  return found
end
