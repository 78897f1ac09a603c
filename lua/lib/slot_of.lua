-- When the next message of a lane may be let in by the rate of keys; nil: now. A time further ahead than a rate lets a
-- message wait counts as now: the clock stepped back.
-- needs: now, rule; keys: slots
-- gives: slot_of
local function slot_of(lane)
  local at = tonumber(redis.call('ZSCORE', slots, string.format('%.0f', lane)) or nil)
  return at and at > now and at <= now + rule.interval and at or nil
end
