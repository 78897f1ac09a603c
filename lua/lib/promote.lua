-- Moves due messages from `scheduled` to `ready`. Only the index changes; the state stays the same. With a rule for keys, a
-- message with a key needs a seat of its lane; otherwise it is blocked there.
-- needs: now, score_of, setting; keys: ready, scheduled
-- gives: promote
local function promote(limit)
  local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  local moved, members, blocked = {}, {}, {}
  local blocks = #rows > 0 and setting('per_key') and (function()
    -- needs: enter, waiting_lane, id_of, BLOCKED; keys: states
    local full = {}
    return function(row)
      local id = id_of(row)
      local lane, is_own = waiting_lane(id, row, redis.call('HGET', states, id))
      if not is_own then
        return false
      end
      local may, slot = enter(id, row, lane, full)
      return not may and (slot or BLOCKED + lane)
    end
  end)()
  for i = 1, #rows, 2 do
    local first, lane = rows[i]:byte(1), blocks and blocks(rows[i])
    if lane then
      blocked[#blocked + 1], blocked[#blocked + 2] = lane, rows[i]
    else
      members[#members + 1] = rows[i]
      local priority = first < 10 and 9 - first or 4 -- or it was put off (lib/put_off)
      moved[#moved + 1], moved[#moved + 2] = score_of(priority, tonumber(rows[i + 1])), rows[i]
    end
  end
  if #blocked > 0 then
    redis.call('ZADD', scheduled, unpack(blocked))
  end
  if #members > 0 then
    redis.call('ZADD', ready, unpack(moved))
    redis.call('ZREM', scheduled, unpack(members))
  end
  return #rows / 2
end
