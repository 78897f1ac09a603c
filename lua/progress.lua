-- Writes the progress of a call into the state of its message (rq_dlq/values/state.py). The field is valid for this
-- delivery only, so no script needs to remove it. Returns a verdict.
local id, token, progress = ARGV[1], ARGV[2], ARGV[3] -- progress: a fraction, and a text without blanks
-- needs: holds, held_head, parse_state, format_state, refusal, SETTLED, LOST, now; keys: states
local text = redis.call('HGET', states, id)
if not holds(token, text) then
  return refusal(id, token, text)
end
local head = held_head(id, text)
if not head then
  return LOST
end
local state = parse_state(text, head.birth)
local word = string.format(' progress=%d/%.0f/', state.deliveries, now) .. progress
state.more = state.more:gsub(' progress=%S*', '') .. word
redis.call('HSET', states, id, format_state(state))
return SETTLED
