-- Adds the list that a session staged for this queue, whose messages `move_staged` moves then; `has_staged`: whether it is
-- there, and whole. An empty member: there is none.
-- needs: now; keys: committed, staged
-- gives: add_staged, has_staged
local function has_staged(member, length)
  return member == '' or redis.call('LLEN', staged) == length
    or redis.call('ZSCORE', committed, member) ~= false -- the commit was cut off, and this moves by now
end

local function add_staged(member, grace)
  if member ~= '' then
    redis.call('ZADD', committed, now + grace, member)
    redis.call('PERSIST', staged)
  end
end
