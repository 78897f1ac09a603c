-- The delay of a failure that is not charged. No budget ends such failures, so each in a row waits twice as long: 1 s at first,
-- 10 minutes at most, spread as the policy says, and never less than the policy's delay. A second or more that the caller
-- asked for stays as it is. The state counts them in its field uncharged=N, until lib/taken_up removes it.
--   count: of these failures, with this one; asked: by the caller, milliseconds; nil: the policy's; delay: without this rule
-- needs: policy_delay
-- gives: uncharged, uncharged_delay
local FIRST, LONGEST = 1000, 600000 -- milliseconds

local function uncharged(state)
  return tonumber(state.more:match(' uncharged=(%d+)') or 0)
end

local function uncharged_delay(count, asked, delay, spread, r)
  if asked and asked >= FIRST then
    return asked
  end
  local growth = { arithmetic = 'rq', initial_delay = FIRST, multiplier = 2, max_delay = LONGEST, collision_avoidance = spread }
  return math.max(policy_delay(growth, count, r), asked and 0 or delay)
end
