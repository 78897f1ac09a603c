-- For a message that was touched before or has a time to live: its state once leased; nil where the row of the
-- index is stale (a script was cut off), or the message has no redelivery or no time left.
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/stand
-- @include lib/bury
-- @include lib/left_over
local spent
return function(id, record, stated, row)
  local head = read_record(record)
  local state = parse_state(stated, head.birth)
  local as_stated = state.part == part and state.due <= now and member_of(id, head, state.due) == row
  if state.mark == '+' and not redis.call('ZSCORE', leases, state.token) then
    state.mark = '-' -- a stranger's word: nobody holds it
  end
  if state.mark == '+' or not as_stated and left_over(source, row, id, state, head) then
    return nil
  end
  state.part = part
  if part == 'live' and state.charged > 0 then -- the limit may have been lowered since it failed (I6)
    spent = spent or (function()
      -- @include lib/spent
    end)()
    if spent(state.charged) then
      bury(id, state, head, 'dead', 'exhausted')
      return nil
    end
  end
  local expiry = part == 'live' and expiry_of(head, state)
  if expiry and expiry <= now then
    bury(id, state, head, 'expired', 'expired')
    return nil
  end
  state.deliveries, state.mark, state.token = state.deliveries + 1, '+', token
  return format_state(state)
end
