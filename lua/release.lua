-- Gives messages back that nobody has handled, or that should not be charged: due now, at their old position (I8).
-- Returns a verdict for each.
-- drains
-- items from ARGV[1]: id, token
-- needs: settle, record_or_verdict, read_record, parse_state, give_back, setting, holder, wake_one
return settle(1, 2, function(id, text)
  local record, verdict = record_or_verdict(id, text)
  if not record then
    return verdict
  end
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  give_back(id, state, head, setting('outcomes') and holder(state.token))
end, wake_one)
