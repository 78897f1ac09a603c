-- Pauses the key of a message for `span` milliseconds; of two ends the later one counts.
-- needs: now, read_lane, write_lane, text_in; keys: messages
-- gives: pause_key
local function pause_key(id, head, span)
  local lane = read_lane(head.lane)
  if span <= 0 or lane and lane.paused and (not lane.ends or lane.ends >= now + span) then
    return
  end
  lane = lane or { of = 'key', name = text_in(redis.call('HGET', messages, id) or '', 'key') }
  lane.paused, lane.ends, lane.due, lane.by = lane.paused or now, now + span, now + span, nil
  write_lane(head.lane, lane)
end
