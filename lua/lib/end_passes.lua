-- Ends the passes of messages that were let through the gate of their dependency.
-- needs: PASS; keys: seats, gates
-- gives: end_passes
local function end_passes(ids)
  local passes = {}
  for n, id in ipairs(ids) do
    passes[n] = PASS .. id
  end
  redis.call('ZREM', seats, unpack(passes))
  redis.call('ZREM', gates, unpack(passes))
end
