-- Where keys count no more: makes blocked messages due, some a call; when none is left, forgets the seats and the rule.
-- needs: now, BLOCKED, setting; keys: scheduled, seats, settings, tended
-- gives: unblock
local UNBLOCKED = 1000 -- rows a call (I9)

local function unblock()
  local rows, due = redis.call('ZRANGEBYSCORE', scheduled, BLOCKED, '+inf', 'LIMIT', 0, UNBLOCKED), {}
  for _, row in ipairs(rows) do
    due[#due + 1], due[#due + 2] = now, row
  end
  if #due > 0 then
    redis.call('ZADD', scheduled, unpack(due))
  elseif setting('per_key') == 'off' then -- else it is damaged, or of a later version
    redis.call('UNLINK', seats, tended)
    redis.call('HDEL', settings, 'per_key')
  end
end
