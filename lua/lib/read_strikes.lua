-- The recent failures that count against a dependency: for each of the last messages that failed, its last failure. A line
-- each:
--   when, how often it was charged for those, how often it had been redriven, how many others succeeded since, its id
-- Successes since the last line are counted beside it (lib/succeeded). The key expires with the last window; each new
-- window removes some of those that have ended.
-- needs: now, breaker; keys: strikes
-- gives: read_strikes, write_strikes, forget_strikes
local LINE, SCANNED = '(%d+) (%d+) (%d+) (%d+) ([^\n]*)', 4

local function read_strikes(name)
  local found = redis.call('HMGET', strikes, name, name .. ' acks')
  local lines = {}
  for at, charged, redriven, acks, id in (found[1] or ''):gmatch(LINE) do
    at = tonumber(at)
    if at <= now and at > now - breaker.within then
      lines[#lines + 1] = {
        at = at, charged = tonumber(charged), redriven = tonumber(redriven), acks = tonumber(acks), id = id,
      }
    end
  end
  if #lines > 0 then
    lines[#lines].acks = lines[#lines].acks + (tonumber(found[2] or nil) or 0)
  end
  return lines, not found[1]
end

local function forget_strikes(name)
  redis.call('HDEL', strikes, name, name .. ' acks')
end

-- Removes some of the windows that have ended.
local function trim()
  local found = redis.call('HSCAN', strikes, redis.call('HGET', strikes, '') or 0, 'COUNT', SCANNED)
  for n = 1, #found[2], 2 do
    local last = found[2][n + 1]:match('(%d+)[^\n]*$')
    if found[2][n]:find('^%d+$') and not (last and tonumber(last) > now - breaker.within) then
      forget_strikes(found[2][n])
    end
  end
  redis.call('HSET', strikes, '', found[1])
end

local function write_strikes(name, lines, is_new)
  local rows = {}
  for n, line in ipairs(lines) do
    rows[n] = string.format('%.0f %d %d %d %s', line.at, line.charged, line.redriven, line.acks, line.id)
  end
  redis.call('HSET', strikes, name, table.concat(rows, '\n'), name .. ' acks', 0)
  redis.call('PEXPIRE', strikes, breaker.within)
  if is_new then
    trim()
  end
end
