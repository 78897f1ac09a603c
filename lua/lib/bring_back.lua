-- Returns a dead letter or an expired message to its queue: due now, a fresh budget, the history kept.
--   row: its row in the index `source`; by: the operator; cause: cells of a cause
--   job: the redrive that it is part of; nil: none. A field of the state names it until the message dies again, with the
--   values that an undo needs:
--     redrive=job/reason/death/charged/delay/deliveries[/expiry]
--   expires: when it expires; nil: never. record: replaces its own; nil: it stays as it was
-- needs: remember_expiry, now, remember, ungroup, with_expiry_word, put, leave, outcome, attempts; keys: messages, counters
-- gives: bring_back
local function bring_back(id, state, head, source, row, by, cause, job, expires, record)
  remember_expiry(id, state)
  remember(id, 'redriven', attempts(state), 0, by, cause) -- the first write that a full server refuses
  if state.part == 'dead' then
    ungroup(state, row)
    state.more = state.more:gsub(' group=%S*', '')
  end
  if job then
    local was = { job, state.reason, state.due, state.charged, state.delay, state.deliveries }
    was[#was + 1] = state.more:match(' expires=(%d+)')
    state.more = state.more .. ' redrive=' .. table.concat(was, '/')
  end
  state.more = with_expiry_word(state.more:gsub(' returned=%S*', ''):gsub(' struck=%S*', ''), expires)
  if record then
    -- needs: with_head, with_priority
    record = with_priority(record, head.priority)
    state.more = with_head(state.more, record)
    redis.call('HSET', messages, id, record)
  end
  state.part, state.reason, state.due = 'live', '', now
  state.charged, state.delay, state.redriven = 0, 0, state.redriven + 1
  leave(id, source, row, put(id, state, head))
  redis.call('HINCRBY', counters, 'redriven', 1)
  outcome('redriven', id, head, state, 0, { consumer = by })
end
