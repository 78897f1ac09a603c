-- Opens the breaker of a dependency: claims park its messages from now. The charges of the window are refunded first: if
-- cut off here, the next failure opens it. Passes end, so that messages that were let through but are not leased are also
-- parked.
--   id: a message that needs it
-- needs: now, breaker, refund, read_lane, write_lane, text_in, note_audit; keys: messages, seats
-- gives: open_breaker
local MOST = 100 -- passes; there are never more

local function open_breaker(number, lines, id)
  local dead = {}
  for _, line in ipairs(lines) do
    if refund(line) then
      dead[#dead + 1] = line.id
    end
  end
  local name = text_in(redis.call('HGET', messages, id) or '', 'dependency')
  local lane = read_lane(number) or { of = 'dependency', name = name }
  lane.open, lane.probes, lane.wait, lane.due = now, 0, 2 * breaker.probe, now + breaker.probe
  lane.drains, lane.idle, lane.dead = nil, nil, #dead > 0 and dead or nil
  local passes = redis.call('ZRANGEBYSCORE', seats, number, number, 'LIMIT', 0, MOST)
  if #passes > 0 then
    redis.call('ZREM', seats, unpack(passes))
  end
  write_lane(number, lane)
  note_audit('opened', '"breaker"', '', 'chosen', 'dependency ' .. lane.name)
  return lane.name
end
