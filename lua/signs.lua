-- The signs that a dependency is down: a run of failures, and a share of failures in a window of time.
--
-- - Different messages, not failures: if one message fails forty times, the message is bad; if twenty fail, the cause
--   is elsewhere. So a poison message never opens a breaker.
-- - Successes count since the first of the last failures, not in a window of time: otherwise a calm minute before an
--   outage hides it, and a poison shortly before delays it.
-- - The windows of failures are a key of their own, which expires; a healthy queue has none, so an ack takes one EXISTS
--   more. While messages fail, an ack reads the dependency of its message (Record.needs_of), not the whole head.
local RUN_ENDS = 3600000 -- milliseconds after its last failure
local SIXTHS = 6 -- lines of the window
local LINE = '(%d+) (%d+) (%d+) (%d+)' -- of the window
local SCANNED = 4 -- fields of `runs` and `strikes` that a call checks

-- The field `struck` of a state: the message has failed in a way that counts against its dependency. Only its first failure
-- since it was sent or redriven is evidence: otherwise the retries of bad messages would look like an outage.
--   struck=LAST/CHARGED/REFUNDS: when it last failed so; how often that charged it, since the signs began; how often such
--   charges were refunded
function Signs.struck(more)
  local last, charged, refunds = more:match(' struck=(%d+)/(%d+)/(%d+)')
  return tonumber(last or nil), tonumber(charged or 0), tonumber(refunds or 0)
end

-- The fields of a state with another value of `struck`.
function Signs.with_struck(more, last, charged, refunds)
  return State.with(more, 'struck', string.format('%.0f/%d/%d', last, charged, refunds))
end

-- The run of failures of a dependency: the different messages that have failed since its last success, one for each call
-- that settled some; and whether it is a new one. It ends an hour after its last failure.
--   FRESH BEGAN LAST, then an id a line: since when no first attempt has ended; when the run began; its last failure
local function read_run(q, name)
  local text = redis.call('HGET', q.runs, name) or ''
  local fresh, began, last = text:match('^(%d+) (%d+) (%d+)')
  if not last or tonumber(last) > q.now or tonumber(last) <= q.now - RUN_ENDS then
    return { fresh = q.now, began = q.now, ids = {}, has = {} }, true
  end
  local run = { fresh = tonumber(fresh), began = tonumber(began), ids = {}, has = {} }
  for id in text:gmatch('\n([^\n]*)') do
    run.ids[#run.ids + 1], run.has[id] = id, true
  end
  return run, false
end

-- The number of the sixth in which it is now.
local function sixth_of(q)
  return math.floor(q.now / math.max(q.breaker.within / SIXTHS, 1))
end

-- The window of a dependency: for each sixth of `breaker.within` a line of how many messages failed, and how many
-- succeeded, at their first attempts. Successes count only while there are failures.
--   SIXTH FIRST FAILURES SUCCESSES: the number of the sixth, and when the first failed in it (0: none did)
-- Returns the lines, the oldest first, and whether there were none.
function Signs.read_window(q, name)
  local lines, sixth = {}, sixth_of(q)
  for number, first, failures, successes in (redis.call('HGET', q.strikes, name) or ''):gmatch(LINE) do
    number = tonumber(number)
    if number > sixth - SIXTHS and number <= sixth then
      lines[#lines + 1] = {
        sixth = number, first = tonumber(first), failures = tonumber(failures), successes = tonumber(successes),
      }
    end
  end
  return lines, #lines == 0
end

-- Adds failures and successes at first attempts to the window, and writes it.
--   failures, successes: how many more
function Signs.add_to_window(q, name, lines, failures, successes)
  local last, texts, sixth = lines[#lines], {}, sixth_of(q)
  if not last or last.sixth ~= sixth then
    last = { sixth = sixth, first = 0, failures = 0, successes = 0 }
    lines[#lines + 1] = last
  end
  last.first = last.first == 0 and failures > 0 and q.now or last.first
  last.failures, last.successes = last.failures + failures, last.successes + successes
  for n, line in ipairs(lines) do
    texts[n] = string.format('%.0f %.0f %d %d', line.sixth, line.first, line.failures, line.successes)
  end
  redis.call('HSET', q.strikes, name, table.concat(texts, '\n'))
  redis.call('PEXPIRE', q.strikes, q.breaker.within)
end

-- Reads the signs of a dependency.
function Signs.read(q, name)
  local run, is_new = read_run(q, name)
  local window, is_empty = Signs.read_window(q, name)
  return { run = run, window = window, failures = 0, is_new = is_new or is_empty }
end

-- Counts the failure of a message in the run and, if it was its first one, in the window.
--   is_first: whether it was the first failure of the message
function Signs.count_failure(q, signs, id, is_first)
  local run = signs.run
  if not signs.counted and not run.has[id] and (is_first or run.fresh <= q.now - q.breaker.within / 6) then
    run.ids[#run.ids + 1], run.has[id], signs.counted = id, true, true
  end
  if is_first then
    run.fresh, signs.failures = q.now, 1
  end
end

-- Whether either sign says that a dependency is down. Each needs `breaker.distinct` different messages:
--   a run: so many have failed without any success of the dependency between them
--   a share: within the window, whose first failure is at least a sixth of it ago, so many have failed at their first
--   attempts, and they are at least `breaker.share` of those that have ended
-- The messages of one call count as one, since a batch settles its bad messages before the others.
function Signs.is_down(q, signs)
  local failures, successes, first = signs.failures, 0, signs.failures > 0 and q.now or math.huge
  for _, line in ipairs(signs.window) do
    failures, successes = failures + line.failures, successes + line.successes
    first = line.first > 0 and math.min(first, line.first) or first
  end
  local is_share = failures >= q.breaker.distinct and failures >= q.breaker.share * (failures + successes)
  return #signs.run.ids >= q.breaker.distinct or is_share and first <= q.now - q.breaker.within / 6
end

-- Removes signs of other dependencies that have ended, some a call.
local function trim(q, index, cursor, ended)
  local found = redis.call('HSCAN', index, redis.call('HGET', q.strikes, cursor) or 0, 'COUNT', SCANNED)
  for n = 1, #found[2], 2 do
    local name, text = found[2][n], found[2][n + 1]
    local last = name:find('^%d+$') and text:match(index == q.runs and '^%d+ %d+ (%d+)' or '(%d+) [^\n]*$')
    if last and tonumber(last) <= ended then
      redis.call('HDEL', index, found[2][n])
    end
  end
  redis.call('HSET', q.strikes, cursor, found[1])
end

-- Writes the signs that a dependency is down, and removes some of other dependencies that have ended.
function Signs.write(q, name, signs)
  local run = signs.run
  local text = string.format('%.0f %.0f %.0f\n', run.fresh, run.began, q.now) .. table.concat(run.ids, '\n')
  redis.call('HSET', q.runs, name, text)
  redis.call('PEXPIRE', q.runs, RUN_ENDS)
  Signs.add_to_window(q, name, signs.window, signs.failures, 0)
  if signs.is_new then
    trim(q, q.runs, 'runs', q.now - RUN_ENDS)
    trim(q, q.strikes, '', sixth_of(q) - SIXTHS)
  end
end

-- Notes which messages have failed and need a dependency, so that their charges can be refunded if it is down. The key
-- expires an hour after the last failure; for each row that is added, two that are older go.
function Signs.note_failures(q, name, ids)
  local cells = {}
  for n, id in ipairs(ids) do
    cells[2 * n - 1], cells[2 * n] = q.now, name .. ' ' .. id
  end
  redis.call('ZADD', q.failures, unpack(cells))
  local old = redis.call('ZRANGEBYSCORE', q.failures, '-inf', q.now - RUN_ENDS, 'LIMIT', 0, 2 * #ids)
  if #old > 0 then
    redis.call('ZREM', q.failures, unpack(old))
  end
  redis.call('PEXPIRE', q.failures, RUN_ENDS)
end
