-- The success of a probe closes the breaker of its dependency; this success and each that follows let in two more messages.
-- Returns the name of the dependency, if it was closed.
--   acks: how many of its messages have succeeded; batch: how many messages were acked with them
-- needs: now, breaker, count_parked, write_lane, drain, note_audit
-- gives: come_back
local MOST = 1000 -- of a batch (I9)

local function come_back(number, lane, acks, batch)
  local closed = lane.open and lane.name
  lane.most = math.min(batch, MOST)
  if closed then
    note_audit('closed', '"breaker"', '', 'number', count_parked(number), 'chosen', 'dependency ' .. lane.name)
    lane.open, lane.probe, lane.probes, lane.wait, lane.idle, lane.dead, lane.died, lane.error = nil, nil, nil, nil, nil, nil, nil, nil
    lane.drains, lane.drain = now, now + breaker.probe
    write_lane(number, lane) -- first: while the breaker is open, only probes have a pass
  end
  if not lane.paused then
    drain(number, lane, 2 * acks)
  end
  return closed
end
