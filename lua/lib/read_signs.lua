-- The signs that a dependency is down, each of `breaker.distinct` different messages:
--   a run: so many have failed without any success of the dependency between them
--   a share: within the window, whose first failure is at least a sixth of it ago, so many have failed at their first
--   attempts, and they are at least `breaker.share` of those that have ended
-- The messages of one call count as one, since a batch settles its bad messages before the others.
-- needs: now, breaker, read_run, read_window
-- gives: read_signs, count_failure, is_down
local function read_signs(name)
  local run, is_new = read_run(name)
  local window, is_empty = read_window(name)
  return { run = run, window = window, failures = 0, is_new = is_new or is_empty }
end

-- is_first: whether it was the first failure of the message
local function count_failure(signs, id, is_first)
  local run = signs.run
  if not signs.counted and not run.has[id] and (is_first or run.fresh <= now - breaker.within / 6) then
    run.ids[#run.ids + 1], run.has[id], signs.counted = id, true, true
  end
  if is_first then
    run.fresh, signs.failures = now, 1
  end
end

local function is_down(signs)
  local failures, successes, first = signs.failures, 0, signs.failures > 0 and now or math.huge
  for _, line in ipairs(signs.window) do
    failures, successes = failures + line.failures, successes + line.successes
    first = line.first > 0 and math.min(first, line.first) or first
  end
  local is_share = failures >= breaker.distinct and failures >= breaker.share * (failures + successes)
  return #signs.run.ids >= breaker.distinct or is_share and first <= now - breaker.within / 6
end
