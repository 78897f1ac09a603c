-- Reads acked messages before they are removed: how many needed each dependency, and of these how many succeeded at their
-- first attempts; and for each dependency that is down, whether one of them was a probe. Statements, as in lib/chosen: while
-- messages fail, each ack runs them. Functions for a dependency that is down are defined only then.
-- needs: needs_of; locals: ids, texts, gated
-- gives: succeeded, probed, first_tried
local succeeded, first_tried, needs, probed = {}, {}, {}, {}
local UNCHARGED = '^%S+ %S+ %d+ %d+ 0 '
for n, id in ipairs(ids) do
  local number = needs_of(id, texts[n])
  if number then
    succeeded[number], needs[n] = (succeeded[number] or 0) + 1, number
    if texts[n]:find(UNCHARGED) and not texts[n]:find(' struck=', 1, true) then
      first_tried[number] = (first_tried[number] or 0) + 1
    end
  end
end
if gated then
  -- needs: PASS, read_lane; keys: seats
  for n, dependency in pairs(needs) do
    local lane = not probed[dependency] and read_lane(dependency)
    probed[dependency] = probed[dependency] or lane and lane.open and redis.call('ZSCORE', seats, PASS .. ids[n]) or nil
  end
end
