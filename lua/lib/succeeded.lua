-- Looks at messages that were acked before they go: how many needed each dependency, and of which that are down one was a probe.
-- Statements, as in lib/chosen: while messages fail, each ack runs them. What is needed where one is down is defined only there.
-- needs: needs_of; locals: ids, texts, gated
-- gives: succeeded, probed
local succeeded, needs, probed = {}, {}, {}
for n, id in ipairs(ids) do
  local number = needs_of(id, texts[n])
  if number then
    succeeded[number], needs[n] = (succeeded[number] or 0) + 1, number
  end
end
if gated then
  -- needs: PASS, read_lane; keys: seats
  for n, dependency in pairs(needs) do
    local lane = not probed[dependency] and read_lane(dependency)
    probed[dependency] = probed[dependency] or lane and lane.open and redis.call('ZSCORE', seats, PASS .. ids[n]) or nil
  end
end
