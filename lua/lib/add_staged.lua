-- Adds the list that a session staged for this queue; `move_staged` moves its messages later. `has_staged`: whether the
-- list exists and is complete. An empty member: no list.
-- needs: now; keys: committed, staged
-- gives: add_staged, has_staged
local function has_staged(member, length)
  return member == '' or redis.call('LLEN', staged) == length
    or redis.call('ZSCORE', committed, member) ~= false -- the commit was cut off, and the list is being moved
end

local function add_staged(member, grace)
  if member ~= '' then
    redis.call('ZADD', committed, now + grace, member)
    redis.call('PERSIST', staged)
  end
end
