-- A field of the queue's settings; false if it is absent. A script reads them from Redis once.
-- needs: keys: settings
-- gives: setting
local FIELDS = {
  redelivery = 1, dead_letter = 2, outcomes = 3, per_key = 4, breaker = 5, gated = 6, rate = 7, limited = 8, narrowed = 9,
  max_in_flight = 10,
}
local found
local function setting(name)
  found = found or redis.call(
    'HMGET', settings, 'redelivery', 'dead_letter', 'outcomes', 'per_key', 'breaker', 'gated', 'rate', 'limited',
    'narrowed', 'max_in_flight'
  )
  return found[FIELDS[name]]
end
