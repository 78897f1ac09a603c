-- The only way into the dead-letter queue and the expiry queue. The queue's settings may send expired messages to the dead
-- letters, or discard messages, which is counted (I14). Returns where the message went: dead, expired or discarded.
-- needs: read_strategy, now, put, outcome, taken_up; keys: counters
-- gives: bury
local strategy

-- detail: for the outcome history (lib/outcome)
local function bury(id, state, head, part, reason, detail)
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
  taken_up(state)
  if fate == 'discard' then
    -- needs: drop
    redis.call('HINCRBY', counters, 'discarded', drop({ id }))
    local job = state.more:match(' redrive=([^/ ]+)/') -- otherwise lib/put counts it
    if job then
      -- needs: count_redriven
      count_redriven(job, 'died')
    end
  else
    state.part, state.due = fate, now
    put(id, state, head)
  end
  outcome(reason == 'expired' and 'expired' or 'dead', id, head, state, 0, detail)
  if fate == 'discard' then
    outcome('discarded', id, head, state, 0, detail)
    return 'discarded'
  end
  return fate
end
