-- What the queue's settings say, read once a script; false where they say nothing.
local FIELDS, found = { redelivery = 1, dead_letter = 2, outcomes = 3 }, nil
local function setting(name)
  found = found or redis.call('HMGET', settings, 'redelivery', 'dead_letter', 'outcomes')
  return found[FIELDS[name]]
end
