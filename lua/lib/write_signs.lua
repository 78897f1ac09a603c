-- Writes the signs that a dependency is down (lib/read_signs), and removes some of other dependencies that have ended.
-- needs: now, breaker, write_run, add_to_window, RUN_ENDS; keys: strikes, runs
-- gives: write_signs
local SCANNED = 4

-- Removes signs of other dependencies that have ended, some a call.
local function trim(index, cursor, ended)
  local found = redis.call('HSCAN', index, redis.call('HGET', strikes, cursor) or 0, 'COUNT', SCANNED)
  for n = 1, #found[2], 2 do
    local last = found[2][n]:find('^%d+$') and found[2][n + 1]:match(index == runs and '^%d+ %d+ (%d+)' or '(%d+) [^\n]*$')
    if last and tonumber(last) <= ended then
      redis.call('HDEL', index, found[2][n])
    end
  end
  redis.call('HSET', strikes, cursor, found[1])
end

local function write_signs(name, signs)
  write_run(name, signs.run)
  add_to_window(name, signs.window, signs.failures, 0)
  if signs.is_new then
    trim(runs, 'runs', now - RUN_ENDS)
    trim(strikes, '', math.floor(now / math.max(breaker.within / 6, 1)) - 6)
  end
end
