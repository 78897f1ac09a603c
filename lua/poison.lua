-- Settles messages that can never succeed: straight to the dead-letter queue, whatever the budget. Returns for each
-- what became of it, or a verdict.
-- drains
local consumer = ARGV[1]
-- items from ARGV[2]: id, token, reason (poison or unprocessable), error
-- needs: settle, record_or_verdict, read_record, parse_state, remember, bury, put
return settle(2, 4, function(id, text, i)
  local record, verdict = record_or_verdict(id, text)
  if not record then
    return verdict
  end
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  remember(id, 'poisoned', state.deliveries, 0, consumer, ARGV[i + 3])
  if state.part == 'live' then
    local detail = { cause = 'poisoned', consumer = consumer, error = ARGV[i + 3] }
    return bury(id, state, head, 'dead', ARGV[i + 2], detail)
  end
  put(id, state, head) -- a dead-letter queue has no dead-letter queue: it stays where it is
  return 'kept'
end)
