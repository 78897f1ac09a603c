-- The only way into the dead-letter queue and the expiry queue. The queue's settings may send what expired to the
-- dead letters, or have it dropped, which is counted (I14). Says where the message went: dead, expired, discarded.
--   dead_letter: {"dead": keep|discard, "expired": expired|dead|discard, "transient": keep|discard, ...}
-- @include lib/outcome
local strategy
local function read_strategy()
  return read_json(setting('dead_letter'))
end

local function discard(id)
  redis.call('HDEL', messages, id) -- from here on it is discarded
  redis.call('HDEL', history, id)
  redis.call('HDEL', states, id) -- the last: by it a sweep knows one that was cut off
  redis.call('HINCRBY', counters, 'discarded', 1)
end

-- told: what the outcome history says of it (lib/outcome)
local function bury(id, state, head, part, reason, told)
  strategy = strategy or read_strategy()
  local fate = strategy[part]
  if fate ~= 'dead' and fate ~= 'discard' then
    fate = part
  end
  if fate == 'dead' and head.transient and strategy.transient == 'discard' then
    fate = 'discard'
  end
  redis.call('HINCRBY', counters, reason, 1)
  state.reason = reason
  if fate == 'discard' then
    discard(id)
  else
    state.part, state.due = fate, now
    stand(id, state, head)
  end
  outcome(reason == 'expired' and 'expired' or 'dead', id, head, state, 0, told)
  if fate == 'discard' then
    outcome('discarded', id, head, state, 0, told)
    return 'discarded'
  end
  return fate
end
