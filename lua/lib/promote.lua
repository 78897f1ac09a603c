-- Moves due messages from `scheduled` to `ready`. Only the index changes; the state stays the same. With a rule for keys, a
-- message with a key needs a seat of its lane; otherwise it is blocked there.
--   limit: of rows; nil: as many as a script moves before it gives a seat; more are due only if nothing claims (lib/behind)
--   leaving: ids whose seats the script gives back, and whose rows it is about to remove: they stay; nil: none
-- needs: now, score_of, setting; keys: ready, scheduled
-- gives: promote
local MOVED = 200

local function promote(limit, leaving)
  local rows = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit or MOVED)
  local moved, members, blocked = {}, {}, {}
  local blocks = #rows > 0 and setting('per_key') and (function()
    -- needs: enter, waiting_lane, id_of, BLOCKED; keys: states
    local full, leaves = {}, {}
    for _, id in ipairs(leaving or {}) do
      leaves[id] = true
    end
    return function(row)
      local id = id_of(row)
      if leaves[id] then
        return math.huge
      end
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
    if lane and lane < math.huge then
      blocked[#blocked + 1], blocked[#blocked + 2] = lane, rows[i]
    elseif not lane then
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
