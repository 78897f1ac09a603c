-- For messages that are handed out if lanes take turns, or keys have a rate: gives back their seats, takes their slots.
-- Returns whether there is a slot for which no client has set its alarm.
-- needs: rule; keys: alarm
-- gives: handed_out
local function handed_out(ids)
  local slot
  if rule.interval then -- before the seats, so that no message is let in
    -- needs: take_slots
    slot = take_slots(ids)
  end
  if rule.in_turn then
    -- needs: vacate
    vacate(ids)
  end
  local alarm_at = slot and tonumber(redis.call('GET', alarm) or nil)
  return slot and not (alarm_at and alarm_at <= slot) or false
end
