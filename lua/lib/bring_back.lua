-- Brings a dead letter or an expired message back to its queue: due now, a fresh budget, the history kept.
--   row: in the index `source`; by: who asked for it; cause: cells of a cause
--   job: the redrive that it is part of; nil: none. A word of the state names it until the message dies again, with
--   what an undo needs:
--     redrive=job/reason/death/charged/delay/deliveries
-- needs: remember_expiry, now, remember, ungroup, put, outcome; keys: counters
-- gives: bring_back
local function bring_back(id, state, head, source, row, by, cause, job)
  remember_expiry(id, state)
  if state.part == 'dead' then
    ungroup(state, row)
    state.more = state.more:gsub(' group=%S*', '')
  end
  if job then
    local was = { job, state.reason, state.due, state.charged, state.delay, state.deliveries }
    state.more = state.more .. ' redrive=' .. table.concat(was, '/')
  end
  state.part, state.reason, state.due = 'live', '', now
  state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
  remember(id, 'redriven', state.deliveries, 0, by, cause)
  put(id, state, head)
  redis.call('ZREM', source, row)
  redis.call('HINCRBY', counters, 'redriven', 1)
  outcome('redriven', id, head, state, 0, { consumer = by })
end
