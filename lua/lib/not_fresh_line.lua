-- The state line of a leased message that is not fresh: it was delivered, delayed or moved before, or has a time to live.
-- nil if the row of the index is stale (a script was cut off), or if the message is spent or expired, and is buried;
-- 'later' if it is of a later form, and its row is put off.
-- needs: is_later, head_in, parse_state, now, member_of, left_over, bury, expiry_of, format_state
-- needs: keys: leases; args: part, token
-- gives: not_fresh_line
local spent
local function not_fresh_line(source, row, id, record, stated)
  if is_later(record, stated) then
    -- needs: put_off
    put_off(source, row)
    return 'later'
  end
  local head = head_in(record, stated)
  local state = parse_state(stated, head.birth)
  local as_stated = state.part == part and state.due <= now and member_of(id, head, state.due) == row
  if state.mark == '+' and not redis.call('ZSCORE', leases, state.token) then
    state.mark = '-' -- another program wrote that: no consumer holds it
  end
  if state.mark == '+' or not as_stated and left_over(source, row, id, state, head) then
    return nil
  end
  state.part = part
  if part == 'live' and state.charged > 0 then -- the limit may have been lowered since it failed (I6)
    spent = spent or (function()
      -- needs: is_spent
      return is_spent
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
  if part == 'dead' then
    -- needs: row_in_groups; keys: groups
    redis.call('ZREM', groups, row_in_groups(state, row))
  end
  state.deliveries, state.mark, state.token = state.deliveries + 1, '+', token
  return format_state(state)
end
