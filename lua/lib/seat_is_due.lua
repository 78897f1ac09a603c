-- Whether a message keeps the seat that it holds; one that is blocked all the same becomes ready. The seat of a call whose
-- message was cancelled stays as long as the lease (lib/cancelled_seat).
-- needs: now, rule, keeps_seat, BLOCKED, head_of, parse_state, member_of, score_of, wake_one; keys: states, ready, scheduled, leases
-- gives: seat_is_due
local function seat_is_due(id)
  local token = id:match('^\2(%S+) ')
  if token then
    return redis.call('ZSCORE', leases, token) ~= false
  end
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  if not head then
    return later
  end
  local state = parse_state(text, head.birth)
  if state.mark == '+' then
    return not rule.in_turn
  end
  local member = member_of(id, head, state.due)
  local score = state.part == 'live' and tonumber(redis.call('ZSCORE', scheduled, member) or 0) or 0
  if score >= BLOCKED then
    redis.call('ZADD', ready, score_of(head.priority, now), member)
    redis.call('ZREM', scheduled, member)
    wake_one()
  end
  return keeps_seat(state, score > 0 and score < BLOCKED)
end
