-- The share of failures of a dependency: for each sixth of `breaker.within` a line of how many messages failed, and how many
-- succeeded, at their first attempts. Successes count only while there are failures.
--   SLOT FIRST FAILURES SUCCESSES: the number of the sixth, and when the first failed in it (0: none did)
-- `strikes` expires with the last window.
-- needs: now, breaker; keys: strikes
-- gives: read_window, add_to_window
local SLOTS = 6
local LINE = '(%d+) (%d+) (%d+) (%d+)'
local slot = math.floor(now / math.max(breaker.within / SLOTS, 1))

-- The lines of the window, the oldest first, and whether there were none.
local function read_window(name)
  local lines = {}
  for number, first, failures, successes in (redis.call('HGET', strikes, name) or ''):gmatch(LINE) do
    number = tonumber(number)
    if number > slot - SLOTS and number <= slot then
      lines[#lines + 1] = {
        slot = number, first = tonumber(first), failures = tonumber(failures), successes = tonumber(successes),
      }
    end
  end
  return lines, #lines == 0
end

-- failures, successes: how many more
local function add_to_window(name, lines, failures, successes)
  local last, texts = lines[#lines], {}
  if not last or last.slot ~= slot then
    last = { slot = slot, first = 0, failures = 0, successes = 0 }
    lines[#lines + 1] = last
  end
  last.first = last.first == 0 and failures > 0 and now or last.first
  last.failures, last.successes = last.failures + failures, last.successes + successes
  for n, line in ipairs(lines) do
    texts[n] = string.format('%.0f %.0f %d %d', line.slot, line.first, line.failures, line.successes)
  end
  redis.call('HSET', strikes, name, table.concat(texts, '\n'))
  redis.call('PEXPIRE', strikes, breaker.within)
end
