-- For a message that was touched before or has a time to live: its state once leased; nil where the row of the
-- index is stale (a script was cut off) or the message has no time left.
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
return function(id, record, text, row)
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  local early = state.due > now and state.due ~= math.floor(head.birth / 4096)
  if state.part ~= part or state.mark == '+' or early or member_of(id, head, state.due) ~= row then
    return nil
  end
  local expiry = part == 'live' and expiry_of(head, state)
  if expiry and expiry <= now then
    bury(id, state, head, 'expired', 'expired')
    return nil
  end
  state.deliveries, state.mark, state.token = state.deliveries + 1, '+', token
  return format_state(state)
end
