-- Whether a message that was let through the gate of its dependency keeps the pass: it is ready or being processed, and the
-- gate still exists.
-- needs: read_lane, head_of, parse_state, member_of; keys: states, ready
-- gives: pass_is_due
local function pass_is_due(id, number)
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  if not head then
    return later
  end
  local state = parse_state(text, head.birth)
  local is_there = state.mark == '+' or redis.call('ZSCORE', ready, member_of(id, head, state.due))
  return state.part == 'live' and is_there and read_lane(number) and true or false
end
