-- Moves the row of a message from `ready` to its lane, where it waits for a seat. Its state stays.
-- needs: BLOCKED; keys: ready, scheduled
-- gives: block
local function block(lane, row)
  redis.call('ZADD', scheduled, BLOCKED + lane, row)
  redis.call('ZREM', ready, row)
end
