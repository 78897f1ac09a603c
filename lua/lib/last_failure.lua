-- The line of the newest failure in a history (lib/remember); empty: no failure.
-- gives: last_failure
local FAILURES = { nacked = true, lapsed = true, passed_on = true, poisoned = true, dead_lettered = true }

local function last_failure(story)
  local first, from, to = 1, 1, 0
  while first <= #story do
    local last = (story:find('\n', first, true) or #story + 1) - 1
    if FAILURES[story:match('^[%a_]*', first)] then
      from, to = first, last
    end
    first = last + 2
  end
  return story:sub(from, to)
end
