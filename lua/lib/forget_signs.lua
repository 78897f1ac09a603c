-- Forgets the signs that a dependency is down (lib/read_signs).
-- needs: keys: strikes, runs
-- gives: forget_signs
local function forget_signs(name)
  redis.call('HDEL', runs, name)
  redis.call('HDEL', strikes, name)
end
