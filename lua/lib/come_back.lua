-- The success of a probe closes the breaker of its dependency; this success and each that follows let in two more messages.
-- needs: now, breaker, write_lane, drain, note_audit
-- gives: come_back
local function come_back(number, lane, acks)
  if lane.open then
    note_audit('closed', '"breaker"', '', 'chosen', 'dependency ' .. lane.name)
    lane.open, lane.dead, lane.drains, lane.due = nil, nil, now, now + breaker.probe
    write_lane(number, lane) -- first: while the breaker is open, only one message has a pass
  end
  if not lane.paused then
    drain(number, lane, 2 * acks)
  end
end
