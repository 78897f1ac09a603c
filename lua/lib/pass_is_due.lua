-- Whether a message that was let through the gate of its dependency keeps the pass: it is ready or being processed, and the
-- gate still exists. A pass whose end is missing, or too far away since the clock stepped back, ends now.
--   number: the score of the pass
-- needs: now, breaker, PASS, read_lane, head_of, parse_state, member_of; keys: states, ready, gates
-- gives: pass_is_due
local function pass_is_due(id, number)
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  if not head then
    return later
  end
  local state = parse_state(text, head.birth)
  local is_there = state.mark == '+' or redis.call('ZSCORE', ready, member_of(id, head, state.due))
  local keeps = state.part == 'live' and is_there and read_lane(math.floor(number)) and true or false
  local ends = keeps and number % 1 == 0 and tonumber(redis.call('ZSCORE', gates, PASS .. id) or math.huge)
  if ends and ends > now + breaker.longest then
    redis.call('ZADD', gates, now, PASS .. id)
  end
  return keeps
end
