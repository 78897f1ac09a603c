-- Reads the lane of a dependency: how many messages wait in it; and the first rows, those that failed as probes last.
-- needs: BLOCKED, TRIED, digits; keys: scheduled
-- gives: count_parked, parked_rows
local SPARE = 20 -- more rows that it reads, in place of those that are not let through (I9)

local function count_parked(number)
  local score = digits(BLOCKED + number)
  return redis.call('ZCOUNT', scheduled, score, score .. TRIED)
end

local function parked_rows(number, count)
  local score = digits(BLOCKED + number)
  return redis.call('ZRANGEBYSCORE', scheduled, score, score .. TRIED, 'LIMIT', 0, count + SPARE)
end
