-- Takes back the charges for failures that were not the message's own fault, even while it is leased, unless it was
-- redriven since (I4). Returns whether it is dead.
-- needs: head_of, parse_state, format_state; keys: states
-- gives: refund
local function refund(line)
  local text = redis.call('HGET', states, line.id)
  local head = text and line.charged > 0 and head_of(line.id, text)
  if not head then
    return false
  end
  local state = parse_state(text, head.birth)
  if state.part == 'live' and state.redriven == line.redriven then
    state.charged = math.max(0, state.charged - line.charged)
    redis.call('HSET', states, line.id, format_state(state))
  end
  return state.part == 'dead'
end
