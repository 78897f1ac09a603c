-- The score in `ready` of the next message that is let in: behind all messages that are due by now. If lanes take turns, it is
-- behind all that are there: many are let in within one millisecond, and among equal scores the lane with the oldest messages
-- would have more than its share.
--   first: the first byte of its row, which encodes its priority
-- needs: rule, now, score_of, digits; keys: ready
-- gives: next_score
local STEP = 2 ^ -7 -- milliseconds; a score has room for it (lib/order)
local score_by_first, place_by_first = {}, {}

local function next_score(first)
  if not rule.in_turn then
    local score = score_by_first[first] or digits(score_of(9 - first, now + 1))
    score_by_first[first] = score
    return score
  end
  local band, place = score_of(9 - first, 0), place_by_first[first]
  if not place then
    local last = tonumber(redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2] or 0) - band
    place = last > now and last < now + 60000 and last or now + 1
  end
  place_by_first[first] = place + STEP
  return string.format('%.17g', band + place + STEP)
end
