-- Takes back the charges for failures that were not the message's own fault, even while it is leased (I4); at most three
-- times until it is redriven, so that bad messages do not live on refunds. Returns whether it is dead.
--   since: when the signs began
-- needs: head_of, parse_state, format_state, read_struck, with_struck; keys: states
-- gives: refund
local MOST_REFUNDS = 3

local function refund(id, since)
  local text = redis.call('HGET', states, id)
  local head = text and head_of(id, text)
  if not head then
    return false
  end
  local state = parse_state(text, head.birth)
  local last, charged, refunds = read_struck(state.more)
  if state.part == 'live' and last and last >= since and charged > 0 and refunds < MOST_REFUNDS then
    state.charged = math.max(0, state.charged - charged)
    state.more = with_struck(state.more, last, 0, refunds + 1)
    redis.call('HSET', states, id, format_state(state))
  end
  return state.part == 'dead'
end
