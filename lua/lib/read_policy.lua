-- The redelivery policy in a text. nil if it is damaged, which must not stop the queue; nil and true if it names an unknown
-- arithmetic, so a later version wrote it.
-- needs: read_json
-- gives: read_policy
local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- in addition to those that all need

local function is_number(value)
  return type(value) == 'number' and value == value -- NaN is not itself
end

local function read_policy(text)
  local found = read_json(text).redelivery
  if type(found) ~= 'table' or not NEEDED[found.arithmetic] then
    return nil, type(found) == 'table' and type(found.arithmetic) == 'string'
  end
  local sound = is_number(found.initial_delay) and is_number(found.multiplier)
  sound = sound and is_number(found.collision_avoidance) and is_number(found[NEEDED[found.arithmetic]])
  for _, wait in ipairs(type(found.delays) == 'table' and found.delays or {}) do
    sound = sound and is_number(wait)
  end
  return sound and found or nil
end
