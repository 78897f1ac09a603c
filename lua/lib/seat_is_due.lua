-- Whether a message keeps the seat that it holds; one that is still blocked in the lane of its key becomes ready. The seat
-- of a call whose message was cancelled stays as long as the lease (lib/cancelled_seat). If keys have a rate, a blocked
-- message gives its seat back; and a leased one whose claim was cut off takes its slot now. Places are left to
-- lib/cancelled_calls.
--   own: the score of the seat
-- needs: now, rule, PLACES, keeps_seat, is_closed, BLOCKED, head_of, parse_state, member_of, score_of, wake_one
-- needs: keys: states, ready, scheduled, leases
-- gives: seat_is_due
local function seat_is_due(id, own)
  if own == PLACES then
    return true
  end
  local token, cancelled = id:match('^\2(%S+) (.*)$')
  if token then -- if the cancel was cut off, the message is still held, and has its own
    local still_held = (redis.call('HGET', states, cancelled) or ''):find(' +' .. token .. ' ', 1, true)
    return redis.call('ZSCORE', leases, token) ~= false and not still_held
  end
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  if not head then
    return later
  end
  local state = parse_state(text, head.birth)
  if state.mark == '+' then
    if rule.interval and own % 1 > 0 then
      -- needs: take_slots
      take_slots({ id })
    end
    return not rule.in_turn
  end
  local member = member_of(id, head, state.due)
  local score = state.part == 'live' and tonumber(redis.call('ZSCORE', scheduled, member) or 0) or 0
  local is_blocked = head.lane and score == BLOCKED + head.lane
  if is_blocked and (rule.interval or is_closed(head.lane)) then
    return false
  elseif is_blocked then
    redis.call('ZADD', ready, score_of(head.priority, now), member)
    redis.call('ZREM', scheduled, member)
    wake_one()
  end
  return keeps_seat(state, score > 0 and not is_blocked)
end
