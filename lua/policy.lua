-- The redelivery policy of a queue, and the delays that it gives.
local NEEDED = { rq = 'multiplier', artemis = 'max_delay', activemq = 'redelivery_delay' } -- beside what all need
local JAVA_LONG = 2 ^ 63 -- the largest long, as near as a double comes

-- Whether a field is a number with a value.
local function is_number(value)
  return type(value) == 'number' and value == value -- NaN is not itself
end

-- The redelivery policy in a text. nil if it is damaged; nil and true if a later version wrote it: an unknown arithmetic.
function Policy.read(text)
  local found = Values.json(text).redelivery
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

-- The first wait, grown n - 1 times; bounded, since 0 * inf is not a number.
local function grown(p, n)
  return p.initial_delay * math.min(p.multiplier ^ (n - 1), JAVA_LONG)
end

-- The arithmetic of this library.
local function rq_delay(p, n, r)
  local limit = type(p.max_delay) == 'number' and p.max_delay or Values.TEN_YEARS
  local listed = type(p.delays) == 'table' and p.delays[math.min(n, #p.delays)]
  local base = listed or math.min(grown(p, n), limit)
  local wait = base + base * (p.collision_avoidance * r)
  return math.floor(wait > limit and 2 * limit - wait or wait)
end

-- A wait with its spread, as Java computes it.
local function java_spread(p, wait, r)
  return math.floor(math.min(wait + wait * (p.collision_avoidance * r), JAVA_LONG))
end

-- The arithmetic of ActiveMQ Artemis.
local function artemis_delay(p, n, r)
  return math.min(java_spread(p, math.floor(math.min(grown(p, n), JAVA_LONG)), r), p.max_delay)
end

-- The arithmetic of ActiveMQ Classic.
local function activemq_delay(p, n, r, previous)
  local wait, limit = p.initial_delay, type(p.max_delay) == 'number' and p.max_delay or JAVA_LONG
  if previous and n > 1 then
    wait, n = previous, 2 -- one step: the state has the previous wait, so the work is bounded (I9)
  end
  for _ = 2, n do
    if wait > 0 and p.multiplier > 1 then
      wait = math.min(math.floor(math.min(wait * p.multiplier, JAVA_LONG)), limit)
    else
      wait = math.max(p.redelivery_delay, 0) -- Python refuses a wait below 0; the queue must go on
    end
    wait = java_spread(p, wait, r)
  end
  return wait
end

local DELAYS = { rq = rq_delay, artemis = artemis_delay, activemq = activemq_delay }

-- The wait before the n-th redelivery in whole milliseconds: RedeliveryPolicy.delay_ms, bit for bit, since both do the same
-- operations on doubles in the same order. cjson.null is true in Lua, so the type of a field that can be null is checked.
--   redelivery: RedeliveryPolicy.as_wire(); r: -1 to 1; previous: the previous wait (nil: computed)
function Policy.delay(redelivery, n, r, previous)
  return DELAYS[redelivery.arithmetic](redelivery, n, r, previous)
end
