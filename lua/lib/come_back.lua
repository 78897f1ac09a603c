-- The success of a probe closes the breaker of its dependency; this and each that follows lets in two more.
-- needs: now, breaker, write_lane, drain, note_audit
-- gives: come_back
local function come_back(number, lane, acks)
  if lane.open then
    note_audit('closed', '"breaker"', '', 'chosen', 'dependency ' .. lane.name)
    lane.open, lane.dead, lane.drains, lane.due = nil, nil, now, now + breaker.probe
    write_lane(number, lane) -- first: while it is open only one has a pass
  end
  if not lane.paused then
    drain(number, lane, 2 * acks)
  end
end
