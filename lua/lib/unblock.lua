-- If keys no longer have a rule: makes blocked messages of these lanes due, some per call; when none is left, forgets the
-- seats and the rule.
-- needs: now, BLOCKED, TRIED, digits, setting; keys: scheduled, seats, slots, settings, tended
-- gives: unblock
local UNBLOCKED = 1000 -- rows per call (I9)

local function unblock(lanes)
  local due = {}
  for _, lane in ipairs(lanes) do
    local score = digits(BLOCKED + lane)
    local most = UNBLOCKED - #due / 2
    for _, row in ipairs(most > 0 and redis.call('ZRANGEBYSCORE', scheduled, score, score .. TRIED, 'LIMIT', 0, most) or {}) do
      due[#due + 1], due[#due + 2] = now, row
    end
  end
  if #due > 0 then
    redis.call('ZADD', scheduled, unpack(due))
  elseif setting('per_key') == 'off' and redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0 then
    redis.call('UNLINK', seats, slots, tended) -- otherwise `per_key` is damaged, or of a later version, or messages are blocked
    redis.call('HDEL', settings, 'per_key', 'narrowed')
  end
end
